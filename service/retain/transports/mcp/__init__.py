"""MCP: the same tools, prompts and resources over stdio and Streamable HTTP."""
