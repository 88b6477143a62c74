"""How long a message takes from its publication by an agent to everywhere the gateway shows what it tells.

The gateway is the whole one (``amqp-gateway run``), on a RabbitMQ of the benchmark's own. One body tells a
new value of an object and an event; it is looked for at all ends at a time. Beside it: the time that the same
body takes through the same exchange to a plain consumer.
"""
