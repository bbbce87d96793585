"""REST under /api."""
