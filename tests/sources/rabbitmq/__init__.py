"""RabbitMQ as a source: requests, answers, events and rights, without I/O and on a real node."""
