"""Attributes that clients set, and operations that they invoke: the requests to Python, and its answers."""
