"""The state as processes, disks and operators treat it."""
