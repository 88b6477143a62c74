"""Operations: the only way to change anything south, and the audit of it.

Requests of norths are checked, decided, numbered and recorded here before anything is sent, and what came of
them is told. No socket, clock, log or thread; a source is known by its `ports.SourcePort` only.
"""
