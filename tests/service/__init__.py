"""Processes, their start and end."""
