"""The rules of Retain: `MemoryService` and the ports it works through. No I/O, no framework."""
