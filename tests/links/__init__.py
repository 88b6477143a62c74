"""AMQP and loopback links."""
