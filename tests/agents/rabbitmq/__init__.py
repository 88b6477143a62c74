"""The RabbitMQ agent: reading, events, rights, and all of it on a real node."""
