"""The MCP server: a project's memory and tasks as tools and resources for any agent that speaks the protocol."""
