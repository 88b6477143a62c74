"""The command ``amqp-gateway``: one file a group of commands; what they do is elsewhere."""
