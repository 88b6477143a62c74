"""The demonstration, held to what its broker says and to the ledger of its workload."""
