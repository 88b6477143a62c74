"""The front end for Prometheus: numbers of objects as metrics.

What the gateway measures of itself is `gateway.service.metrics`; both are served by one endpoint.
"""
