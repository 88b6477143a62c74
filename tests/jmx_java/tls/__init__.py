"""TLS of the JMX agent: its files, and clients of a real virtual machine."""
