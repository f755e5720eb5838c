"""One reader given very many inputs, in a process of its own.

By itself, inputs are made by `fuzz_inputs`. With `--guided`, atheris makes them, from what it sees of the reader's
code: so nothing of ours may be imported before it can watch the import. It ends the process itself.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SIGILS = "sigils"
TWICE = 16
"""One in so many inputs is read twice: nothing may depend on what was before."""
SMALL_CHARACTERS, LARGE_CHARACTERS = 16_000, 128_000
MOST_GROWTH = 24
"""Eight times the text: linear is 8 times the time, squared 64 times."""
NOISE_SECONDS = 0.05
LONGEST_SECONDS = 2.0
"""For a large input that is read, written and read again, on a machine that others use too."""
NOT_TIMED = ("setup, JSON",)
"""It takes our own hooks out one by one and reads the file anew each time: thousands of them would take long."""
HANG_SECONDS = 10
MOST_FINDS = 20


def main() -> int:
    """Give a reader so many inputs, print what was found as one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=0, help="so many large inputs are timed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--guided", action="store_true", help="inputs by atheris")
    parser.add_argument("--folder", type=Path, default=Path(), help="for the corpus and what is found")
    given = parser.parse_args()
    if given.guided:
        return guided(given.target, given.runs, given.seed, given.folder)
    print(json.dumps(hunt(given.target, given.runs, given.seed, given.large)))
    return 0


# --- inputs of our own ------------------------------------------------------------------------


def hunt(name: str, runs: int, seed: int, large: int = 0) -> dict[str, Any]:
    """Give a reader so many inputs, and what came of it."""
    finds: list[dict[str, str]] = []
    began = time.monotonic()
    done = 0
    for number, (read, text) in enumerate(_inputs(name, runs, seed)):
        try:
            found = read(text)
            if number % TWICE == 0 and read(text) != found:
                raise AssertionError("it was read otherwise the second time")
            done += found is True
        except Exception as error:
            finds.append({"input": ascii(text)[:2_000], "error": f"{type(error).__name__}: {error}"[:500]})
            if len(finds) >= MOST_FINDS:
                break
    timed = 0
    for text in _large(name, large, seed):
        timed += 1
        try:
            slow = too_slow(_reader(name), *text)
        except Exception as error:
            slow = f"{type(error).__name__}: {error}"[:500]
        if slow:
            finds.append({"input": ascii(text[1])[:300], "error": slow})
    return {"tried": runs, "timed": timed, "done": done, "finds": finds, "seconds": round(time.monotonic() - began, 1)}


def _inputs(name: str, runs: int, seed: int) -> Iterator[tuple[Callable[[Any], object], Any]]:
    if name == SIGILS:
        from tests.faults.fuzz_sigils import Answers, any_answer, any_answers, look_at_made

        answers, texts = Answers(seed), any_answers(seed)
        for number in range(runs):
            if number % 2:
                yield any_answer, texts.next()
            else:
                yield (lambda made: look_at_made(*made)), answers.next()
        return
    from tests.faults.fuzz_inputs import Inputs
    from tests.faults.fuzz_targets import target

    one = target(name)
    inputs = Inputs(seed, one.examples, one.words)
    for _ in range(runs):
        yield one.read, inputs.next()


def _reader(name: str) -> Callable[[str], object]:
    if name == SIGILS:
        from tests.faults.fuzz_sigils import any_answer

        return any_answer
    from tests.faults.fuzz_targets import target

    return target(name).read


# --- how long it takes ----------------------------------------------------------------------------


def _large(name: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Give pairs of inputs, a small one and one eight times as large that says the same."""
    from tests.faults.fuzz_inputs import Inputs, repeated

    if not count or name in NOT_TIMED:
        return
    many: tuple[tuple[str, str, str], ...]
    inputs: Callable[[int], Inputs]
    if name == SIGILS:
        from tests.faults.fuzz_sigils import MANY, any_answers

        many, inputs = MANY, any_answers
    else:
        from tests.faults import fuzz_examples
        from tests.faults.fuzz_targets import target

        one = target(name)
        many, inputs = fuzz_examples.MANY.get(name, ()), lambda seed: Inputs(seed, one.examples, one.words)
    for head, piece, tail in many:
        yield tuple(repeated(head, piece, tail, size) for size in (SMALL_CHARACTERS, LARGE_CHARACTERS))  # type: ignore[misc]
    small, large = inputs(seed), inputs(seed)
    for _ in range(max(0, count - len(many))):
        yield small.large(SMALL_CHARACTERS), large.large(LARGE_CHARACTERS)


def too_slow(read: Callable[[str], object], small: str, large: str) -> str:
    """Say how the time grows with the text where that is too fast; nothing where it is fine.

    The least time of a few counts: what else the machine does hardly shows in it.
    """
    for _ in range(3):
        before, after = min(_seconds(read, small) for _ in range(2)), _seconds(read, large)
        if after <= LONGEST_SECONDS and after <= MOST_GROWTH * before + NOISE_SECONDS:
            return ""
    return f"{before:.3f} s for {len(small):,} characters, {after:.3f} s for {len(large):,}"


def _seconds(read: Callable[[str], object], text: str) -> float:
    started = time.thread_time()
    read(text)
    return time.thread_time() - started


# --- inputs by atheris ----------------------------------------------------------------------------


def guided(name: str, runs: int, seed: int, folder: Path) -> int:
    """Let atheris find inputs that reach what was not reached before."""
    atheris: Any = importlib.import_module("atheris")  # which is not there on every machine

    with atheris.instrument_imports(include=["ralph"]):
        read = _reader(name)
        corpus = folder / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        for number, example in enumerate(_examples(name)):
            (corpus / str(number)).write_bytes(example.encode("utf-8", "surrogatepass"))

    def once(given: bytes) -> None:
        read(given.decode("utf-8", "surrogateescape"))

    # What is loaded late, when an input first needs it, is not watched: better than a different reader each time.
    limits = [f"-runs={runs}", f"-seed={seed}", "-max_len=2000", f"-timeout={HANG_SECONDS}", "-rss_limit_mb=4096"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={folder}/find-", str(corpus)], once)
    atheris.Fuzz()
    return 0


def _examples(name: str) -> tuple[str, ...]:
    if name == SIGILS:
        from tests.faults.fuzz_sigils import Answers

        made = Answers(1)
        return tuple(f"{answer}\x1e{prompt[-300:]}" for answer, prompt, _ in (made.next() for _ in range(50)))
    from tests.faults.fuzz_targets import target

    return target(name).examples


if __name__ == "__main__":
    sys.exit(main())
