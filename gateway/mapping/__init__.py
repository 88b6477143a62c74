"""Rules for what a protocol does not carry: kinds, lifetimes, names; and where RabbitMQ's values are read.

Strict YAML, one file a package (``mappings/*.yaml``). A mapping never carries OIDs: those are in the
OID registries, which only grow.
"""
