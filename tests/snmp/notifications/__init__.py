"""Notifications: their octets, their receivers, their delivery, and receivers of other implementations."""
