"""Where vectors come from: a local ONNX model, a hub model, an HTTP endpoint. Nothing heavy is imported here."""

from retain.embeddings.choice import open_embedder

__all__ = ["open_embedder"]
