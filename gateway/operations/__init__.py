"""Operations: the only way to change anything on a broker, and the audit of it.

Requests of front ends are checked against schema and policy, numbered and recorded before anything is sent;
their outcomes are recorded too. The package has no socket, clock, log or thread: a source is an
`operation.SourcePort`.
"""
