"""RabbitMQ as a source: requests, answers, events, rights, and all of it on a real node."""
