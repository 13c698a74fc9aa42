"""One module per MCP tool: argument descriptions, and one call into ``kernelkb.actions``."""
