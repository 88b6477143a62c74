"""The event log beside the same octets written and synced by hand, SQLite, and plain DuckDB."""
