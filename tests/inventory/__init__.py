"""Tests of the inventory: identities, row numbers, and the processing of observations."""
