"""The protocol-neutral model."""
