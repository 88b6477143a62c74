"""What shows an administrator the state of a running gateway and its brokers: checks, doctor, explain."""
