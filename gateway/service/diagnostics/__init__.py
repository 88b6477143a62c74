"""Diagnostics of a running gateway and its brokers, for administrators: checks, doctor, explain."""
