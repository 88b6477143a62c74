"""RabbitMQ: its management API and event exchange in, observations out; an agent publishes them as QMF AM2.

Without I/O: reading of JSON and events, the objects known, the polling plan, the source and the agent.
With I/O, and without decisions: the HTTP reader, the consumer of events, the runner that drives them.
"""
