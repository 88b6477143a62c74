"""The only south sockets: AMQP, and the loopback that stands for it inside one process.

A link carries messages for a session and does its I/O; what to say is the session's decision, never the
link's. Reconnecting, bounded queues and the broker's own complaints are dealt with here.
"""
