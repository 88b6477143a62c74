"""Tests of the gateway's own metrics for Prometheus."""
