"""The north at a terminal, with a core of these tests."""
