"""Where vectors come from: a local ONNX model, a hub model, an HTTP endpoint. Nothing heavy is imported here.

`retain.embeddings.choice.open_embedder` turns the setting `RETAIN_EMBEDDING` into an `Embedder`.
"""
