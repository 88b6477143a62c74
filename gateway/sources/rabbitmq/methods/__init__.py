"""What the methods of the mapping's classes do: which requests each makes of the broker, one after the other.

One module for each class, `table` joins them; `gateway.sources.rabbitmq.method_calls` runs them. Nothing here
does I/O, and nothing decides whether a call may be made.
"""
