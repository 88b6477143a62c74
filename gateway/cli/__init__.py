"""The command ``amqp-gateway``: one file for each group of commands; their work is in other packages."""
