"""Agents of our own: they read something that speaks no management protocol and serve it as an agent does.

Each agent is logic without I/O, which runs inside the gateway over a loopback or as a process of its own.
"""
