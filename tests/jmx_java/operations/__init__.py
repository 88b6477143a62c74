"""What clients set and invoke: what Python is told of it, and what they are told of its answer."""
