"""Tests of `gateway.serving`."""
