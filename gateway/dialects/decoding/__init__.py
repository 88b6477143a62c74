"""Bodies of any dialect as values that JSON and YAML can say, for people and tools. No session, no I/O.

What belongs here: what a body says, by itself and with what bodies before it told. Not: any rule of what a
peer may say when.
"""
