"""The connections to sources: AMQP and TCP.

A link carries messages for a session and does its I/O; the session decides what is sent.
Reconnection, bounded queues and errors of the broker are handled here.
"""
