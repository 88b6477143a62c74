"""The MIB side of SNMP: OID registries, syntaxes, generated modules, and the projection of the feed."""
