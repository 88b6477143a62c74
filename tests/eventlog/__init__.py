"""The event log: its form, its files, what is recorded, and reading it back."""
