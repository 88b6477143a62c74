"""A source: how each kind is connected, read, captured and replayed."""
