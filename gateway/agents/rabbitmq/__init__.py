"""The RabbitMQ agent: management API and event exchange in, QMF AM2 agent out.

Without I/O: reading of JSON and events, what is known of objects, the polling plan, the agent itself.
With I/O, and without decisions: the HTTP reader, the consumer of events, the runner that drives them.
"""
