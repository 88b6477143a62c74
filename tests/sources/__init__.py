"""Sources that report observations themselves."""
