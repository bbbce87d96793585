"""The HTTP client: `MemoryAPI` against a running service."""

from retain.client.remote import RemoteMemory

__all__ = ["RemoteMemory"]
