"""``amqp-gateway doctor``: what may be wrong with a gateway, its machine and its brokers, and what to do.

Nothing is changed anywhere. Each part checks one thing, and yields findings, good ones too.
"""
