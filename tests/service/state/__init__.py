"""Tests of `gateway.service.state`."""
