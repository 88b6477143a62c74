"""Tests of `gateway.service.processes`."""
