"""Runs agent programs within limits and leaves no process behind."""
