"""Values and pure functions: what a memory is, and how text, time and scores are read."""
