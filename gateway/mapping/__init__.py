"""Rules for facts that a protocol does not carry (kinds, lifetimes, names), and paths of RabbitMQ's values.

Strict YAML, one file a package (``mappings/*.yaml``). A mapping never carries OIDs: those are in the
OID registries, which only grow.
"""
