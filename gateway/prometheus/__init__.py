"""The front end for Prometheus: numbers of objects as metrics.

The gateway's metrics of itself are in `gateway.service.metrics`; both are served by one endpoint.
"""
