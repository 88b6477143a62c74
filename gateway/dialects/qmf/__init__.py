"""QMF (Qpid Management Framework), version AM2: codec, console session and agent session.

The codec converts message bodies to the frozen messages of `messages` and back; the sessions hold the
conversation. Values here are wire values: a reference is an `ObjectId`. Sessions convert them to the
model's. No I/O of any kind.
"""
