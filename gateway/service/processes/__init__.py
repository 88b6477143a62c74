"""The gateway's processes, and the supervisor that keeps them running."""
