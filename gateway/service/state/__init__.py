"""The gateway's state: its restoration at a start, its backup, its report."""
