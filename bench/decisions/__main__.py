"""`make bench-decisions`: whether what was once decided reaches the prompt, beside plain full text.

BENCH_DATA names a folder with the sets `decisions` and `rules`; bench/decisions/data.py says what is in them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.decisions.data import SETS, Question, Scene, read_set
from bench.decisions.grading import MEASURES, Grades, grade
from bench.decisions.ours import Ralph
from bench.decisions.plain import PlainFullText
from bench.decisions.scratch import CommandFailed
from bench.decisions.table import print_table
from bench.recall import table as recall_table
from bench.recall.measures import CHARACTERS_PER_TOKEN
from bench.recall.sets import BadData

BUDGETS = (2_000, 500)


class Memory(Protocol):
    """What is measured: something filled from a scene that adds a text to a prompt."""

    def recall(self, ask: str, budget_tokens: int) -> str:
        """Return the text for what is asked."""

    def close(self) -> None:
        """Leave nothing behind."""


class Answer(NamedTuple):
    """What a memory told for a question."""

    question: Question
    budget_tokens: int
    text: str
    grades: Grades


MEMORIES: dict[str, Callable[[Scene], Memory]] = {
    "ralph": Ralph,
    "ralph+meaning": partial(Ralph, by_meaning=True),
    "plain full text": lambda scene: PlainFullText(scene.passages),
}
BY_NAME_ONLY = ("ralph+meaning",)


def main(words: list[str] | None = None) -> int:
    """Measure, print a table for each set and budget, and return the exit code."""
    asked = _arguments().parse_args(words)
    folder = os.environ.get("BENCH_DATA", "")
    if not folder:
        print("Let BENCH_DATA name a folder with the sets decisions and rules.", file=sys.stderr)
        return 2
    try:
        sets = {name: read_set(name, Path(folder))[: asked.limit] for name in asked.sets}
    except BadData as error:
        print(error, file=sys.stderr)
        return 2
    out = recall_table.console()
    for name, scenes in sets.items():
        answers = _measure(scenes, asked.memories, asked.budgets)
        for budget_tokens in asked.budgets:
            of_budget = {
                memory: [(one.question, one.grades) for one in told if one.budget_tokens == budget_tokens]
                for memory, told in answers.items()
            }
            print_table(out, f"{name}, {budget_tokens:,} tokens", of_budget, MEASURES[name])
        if asked.prompts:
            _write_prompts(asked.prompts, name, answers)
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.decisions", description=__doc__)
    default = [name for name in MEMORIES if name not in BY_NAME_ONLY]
    parser.add_argument("--sets", type=partial(_names, SETS), default=list(SETS), metavar="A,B", help="only these sets")
    parser.add_argument(
        "--memories",
        type=partial(_names, MEMORIES),
        default=default,
        metavar="A,B",
        help=f"only these, of: {', '.join(MEMORIES)}",
    )
    parser.add_argument("--budgets", type=_counts, default=BUDGETS, metavar="N,N", help="tokens of memory (2000,500)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N projects of each set")
    parser.add_argument("--prompts", type=Path, metavar="FOLDER", help="write what was told here, as JSON lines")
    return parser


def _names(known: Mapping[str, object], text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no {name}: there are {', '.join(known)}")
    return names


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(count) for count in text.split(","))


def _measure(scenes: list[Scene], memories: list[str], budgets: tuple[int, ...]) -> dict[str, list[Answer]]:
    answers: dict[str, list[Answer]] = {}
    for memory in memories:
        try:
            answers[memory] = [one for scene in scenes for one in _ask(MEMORIES[memory], scene, budgets)]
        except CommandFailed as error:
            print(f"Skipped {memory}: {error}", file=sys.stderr)
    return answers


def _ask(make: Callable[[Scene], Memory], scene: Scene, budgets: tuple[int, ...]) -> Iterator[Answer]:
    memory = make(scene)
    try:
        for budget_tokens in budgets:
            for question in scene.questions:
                text = memory.recall(question.ask, budget_tokens)[: budget_tokens * CHARACTERS_PER_TOKEN]
                yield Answer(question, budget_tokens, text, grade(question, text))
    finally:
        memory.close()


def _write_prompts(folder: Path, name: str, answers: dict[str, list[Answer]]) -> None:
    """Write what was told, a file for each memory and budget, so that others can grade it."""
    folder.mkdir(parents=True, exist_ok=True)
    for memory, told in answers.items():
        for budget_tokens in dict.fromkeys(one.budget_tokens for one in told):
            lines = (
                json.dumps({"id": one.question.id, "ask": one.question.ask, "memory": one.text}) + "\n"
                for one in told
                if one.budget_tokens == budget_tokens
            )
            file = folder / f"{name}-{memory.replace(' ', '-')}-{budget_tokens}.jsonl"
            file.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
