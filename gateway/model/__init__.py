"""The protocol-neutral model, which dialects report and front ends show.

Its values are frozen and slotted. Nothing here knows a wire format, SNMP, JMX, a socket, a clock or a log.
"""
