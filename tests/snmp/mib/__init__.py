"""The MIB side of the SNMP north: lock, syntaxes, generated modules, and the projection of the feed."""
