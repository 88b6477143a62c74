"""RabbitMQ as a source: its management API, event exchange and Prometheus endpoint in, observations out.

`source` decides what is requested and what follows from an answer or an event. `runner` makes the requests.
"""
