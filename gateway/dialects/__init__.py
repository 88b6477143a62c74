"""The console protocols: codecs (bytes to frozen messages and back) and sessions (the conversation).

No I/O of any kind: a session receives messages and the time, and returns effects. Sockets are
in ``gateway.links``; what a session finds out is reported as ``gateway.model.observations``.
"""
