"""A dialect of three words, added to the gateway by the list in docs/development.md."""
