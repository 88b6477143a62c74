"""The front end of the command line: the contents of the feed, found by name, as text and as JSON.

It reads and prints nothing itself; the commands do (`gateway.cli`).
"""
