"""Sources that give observations themselves."""
