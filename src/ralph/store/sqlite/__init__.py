"""SQLite driver."""
