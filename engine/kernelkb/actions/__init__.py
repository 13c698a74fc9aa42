"""What a user can do: one function per command, called by the command line and the MCP server."""
