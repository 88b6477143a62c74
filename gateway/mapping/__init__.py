"""What no wire tells of a package: kinds, lifetimes, names; and, for agents of ours, where values come from.

Strict YAML, one file a package (``mappings/*.yaml``). A mapping never carries OIDs: those are in the
OID registries, which only grow.
"""
