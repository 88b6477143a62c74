"""Tests of the mapping."""
