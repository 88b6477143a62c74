"""Examples and properties of the gateway; each folder mirrors one of the package."""
