"""The console protocols: codecs (bytes to frozen messages and back) and sessions (the conversation).

No I/O of any kind: a session is told what arrived and what time it is, and returns effects. Sockets are
in ``gateway.links``; what a session learns goes out as ``gateway.model.observations``.
"""
