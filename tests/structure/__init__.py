"""Figures of the code itself: how large it is, and how far a record travels through it."""
