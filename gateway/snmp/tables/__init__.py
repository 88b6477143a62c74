"""The tables and scalars that the projection keeps in the store.

Each updates its own cells from the records that it gets. `gateway.snmp.projection` interprets the feed and
decides the order of updates.
"""
