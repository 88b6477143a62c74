"""What tells an administrator about a running gateway and its brokers: checks, doctor, explain."""
