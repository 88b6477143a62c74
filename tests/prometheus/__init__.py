"""The front end for Prometheus."""
