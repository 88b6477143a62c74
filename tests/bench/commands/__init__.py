"""The processor time of commands that are called by the hundred, each a process of its own.

Beside each: the interpreter alone, which every command starts. A gateway with one object runs meanwhile.
"""
