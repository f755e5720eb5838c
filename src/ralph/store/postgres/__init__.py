"""PostgreSQL driver."""
