"""SNMP notifications: traps of version 1 and 2c, informs of version 2c.

`notification` makes them, `receiver` and `delivery` decide what one receiver is sent and when, `encoding`
makes datagrams, and `sender` serves all receivers. Everything but `sockets` works without socket, clock, log.
"""
