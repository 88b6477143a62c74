"""Tests of `gateway.service.diagnostics`."""
