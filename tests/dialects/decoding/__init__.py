"""Tests of the decoding of bodies into values: bodies by hand, and all recorded ones."""
