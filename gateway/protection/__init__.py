"""Bodies between our own agents and gateways that no broker can read: signed, encrypted, accepted once."""
