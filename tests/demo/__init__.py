"""The demonstration: its broker, its workload, its installation."""
