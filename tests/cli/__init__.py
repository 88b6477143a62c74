"""Commands, as real processes."""
