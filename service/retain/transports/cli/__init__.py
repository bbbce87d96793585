"""The command line: parse, call one method of the core, print."""
