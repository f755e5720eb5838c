"""`python -m bench.learning.fit`: the weights of the cues, fitted to the tuning half of the labeled sentences."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ralph.memory.capture.cues import CUES
from ralph.memory.capture.worth_keeping import BIAS, PLACE_TYPES, PLACE_WEIGHT, TALK_PLACES, TALK_WEIGHT, find_cues

SENTENCES = Path(__file__).with_name("sentences.jsonl")
PENALTY = 0.6
"""Weight of the squared weights: few sentences must not decide what a cue is worth."""
STEPS, RATE = 1_500, 0.02


def load(half: str) -> list[dict[str, Any]]:
    """Return the labeled sentences of one half."""
    rows = (json.loads(line) for line in SENTENCES.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["half"] == half]


def features(row: dict[str, Any]) -> list[float]:
    """Return the cues of a sentence as numbers, the bias first and what the place says last."""
    found = find_cues(row["text"])
    fits = any(kind in PLACE_TYPES[row["place"]] for cue in found for kind in cue.types)
    return [1.0, *(float(cue in found) for cue in CUES), float(fits), float(row["place"] in TALK_PLACES)]


def fit(rows: list[dict[str, Any]]) -> list[float]:
    """Return the weights, each with the sign that its cue is declared with."""
    inputs = [features(row) for row in rows]
    labels = [float(bool(row["type"])) for row in rows]
    signs = [0, *(math.copysign(1, cue.weight) for cue in CUES), 1, -1]
    weights = [0.0] * len(signs)
    for _ in range(STEPS):
        slopes = [PENALTY * weight if place else 0.0 for place, weight in enumerate(weights)]
        for values, label in zip(inputs, labels, strict=True):
            total = sum(weight * value for weight, value in zip(weights, values, strict=True) if value)
            error = 1 / (1 + math.exp(-total)) - label
            for place, value in enumerate(values):
                if value:
                    slopes[place] += error * value
        weights = [weight - RATE * slope for weight, slope in zip(weights, slopes, strict=True)]
        weights = [
            weight if not sign or weight * sign > 0 else 0.0 for weight, sign in zip(weights, signs, strict=True)
        ]
    return weights


def main() -> None:
    """Print the fitted weights."""
    rows = load("tune")
    bias, *weights, place, talk = fit(rows)
    print(f"{'bias':20} {bias:5.1f}   now {BIAS:.1f}")
    for cue, weight in zip(CUES, weights, strict=True):
        count = sum(cue in find_cues(row["text"]) for row in rows)
        print(f"{cue.name:20} {weight:5.1f}   now {cue.weight:.1f}, in {count} sentences")
    print(f"{'place':20} {place:5.1f}   now {PLACE_WEIGHT:.1f}")
    print(f"{'talk':20} {talk:5.1f}   now {TALK_WEIGHT:.1f}")


if __name__ == "__main__":
    main()
