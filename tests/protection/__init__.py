"""Tests of protected bodies."""
