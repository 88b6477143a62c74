"""Real components that tests start, such as brokers, agents and clients, with everything they need to run."""
