"""The protocol-neutral model: what every dialect tells and every north shows.

Frozen, slotted values only. Nothing here knows a wire format, SNMP, JMX, a socket, a clock or a log.
"""
