"""Real components that tests start: brokers, agents, clients. What they need to run, not what they prove."""
