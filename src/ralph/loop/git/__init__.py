"""Branches, worktrees and snapshots for attempts."""
