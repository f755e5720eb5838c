"""MCP server exposing a project's memory and tasks as tools and resources."""
