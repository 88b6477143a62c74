"""Attacks on a real virtual machine, beside which a good client still works."""
