"""Memory logic without I/O: extraction, ranking, rendering and lifecycle."""
