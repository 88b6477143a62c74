"""Sending SNMP notifications: traps of version 1 and 2c, informs of version 2c.

What an event is and what its varbinds are called is decided elsewhere (`gateway.snmp.notification`). Here it
is decided who gets it, how much of it, when, and how often, and it is made a datagram. Everything but
`sockets` does without socket, clock and log.
"""
