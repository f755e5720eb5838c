"""Notifications: how a person is told about a run while nobody looks at it."""
