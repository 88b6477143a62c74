"""The north at a terminal, told by a core of these tests."""
