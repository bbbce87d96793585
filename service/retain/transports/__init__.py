"""The ways in: REST, MCP and the command line. They parse, call one core method, and render."""
