"""Tests of the findings of an examination."""
