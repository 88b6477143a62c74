"""Sources that speak no management protocol: they are read, and observed like any other source.

Each is logic without I/O. Its observations go to the inventory, or are published by an agent in a process of
its own.
"""
