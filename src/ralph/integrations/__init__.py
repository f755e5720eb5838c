"""Hooks, MCP, agent setup and diagnostics: how agents connect without the loop."""
