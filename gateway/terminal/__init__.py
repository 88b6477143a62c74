"""The north at a terminal: what the feed told, found by whatever name people have, as text and as JSON.

No socket, no clock, no terminal: commands read and print, this says what.
"""
