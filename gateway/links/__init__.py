"""The only southbound sockets: AMQP and TCP.

A link carries messages for a session and does its I/O; what to say is the session's decision, never the
link's. Reconnecting, bounded queues and the broker's own complaints are dealt with here.
"""
