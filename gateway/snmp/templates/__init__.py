"""Templates of monitoring systems, made of OID registries and mappings: what a system polls, by numbers."""
