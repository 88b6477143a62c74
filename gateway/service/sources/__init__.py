"""Sources: the connection, reading, capture and replay of each kind."""
