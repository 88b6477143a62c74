"""The front end of the command line: what the feed contains, found by name, as text and as JSON.

It reads and prints nothing itself; the commands do (`gateway.cli`).
"""
