"""Agents of our own."""
