"""Every verb once. The command line and the MCP server are two spellings of these."""
