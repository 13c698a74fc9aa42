"""Serve the knowledge base as MCP tools."""
