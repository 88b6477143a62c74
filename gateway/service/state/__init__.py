"""The gateway's state: what is restored at a start, its backup, its report."""
