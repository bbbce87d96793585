"""The systems that are compared: Retain, a baseline, and anybody's own."""
