"""The tables and scalars that the projection keeps in the store: what is shown where.

Each keeps its own cells up to date from the records it gets. When what happens, and what the feed means, is
decided in `gateway.snmp.projection`.
"""
