"""The demonstration: its broker, its workload, what it installs."""
