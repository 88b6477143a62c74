"""Decodes bodies of any dialect to values of JSON and YAML, for people and tools. No session, no I/O.

It contains the meaning of a body, by itself and with that of the bodies before it, but no rules about
the order of messages.
"""
