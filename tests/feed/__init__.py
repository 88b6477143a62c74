"""The stream between core and norths."""
