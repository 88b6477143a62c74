"""The protocol-neutral model: what every dialect reports and every front end shows.

Frozen, slotted values only. Nothing here knows a wire format, SNMP, JMX, a socket, a clock or a log.
"""
