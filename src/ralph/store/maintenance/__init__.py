"""Backup, restore, integrity checks, copying and migrations of a database."""
