"""Tests of `gateway.service.sources`."""
