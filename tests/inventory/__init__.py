"""Identities, row numbers and what becomes of observations."""
