"""The demonstration, compared with the state of its broker and with the ledger of its workload."""
