"""Any body as values: by hand, and all that was recorded."""
