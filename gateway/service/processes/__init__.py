"""The gateway's processes: what each starts, and how the supervisor keeps them running."""
