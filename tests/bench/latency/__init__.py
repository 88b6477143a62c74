"""The time from the publication of a message by an agent to each place where the gateway shows its content.

The whole gateway (``amqp-gateway run``) is measured, on a RabbitMQ of the benchmark's own. One body has a
new value of an object and an event; all ends are watched at the same time. Beside it: the time that the same
body takes through the same exchange to a plain consumer.
"""
