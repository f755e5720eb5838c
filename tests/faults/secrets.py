"""Secrets that come in by every way are searched for in everything that can be seen.

Each batch is a new project. A secret comes in by each way (commands, files, hooks, MCP, HTTP, imports, the answers of
an agent at work, what a gate prints); then the bytes of all files are searched, and all that commands, agents,
browsers and exports are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from pathlib import Path
from zlib import crc32

from ralph.core.records import record
from ralph.core.text import sanitize
from tests.faults.abused import ANSWERED, WAYS, Abused, answers
from tests.faults.secret_contexts import hard, ordinary
from tests.faults.secret_corpus import WINDOW, Secret, all_secrets, innocent_lines
from tests.faults.secret_lookalikes import lookalikes
from tests.faults.trial import Shown, Trial

PIECES = 6
"""Number of pieces of a secret that are searched for."""
BROKEN = (", wrapped", ", wrapped and indented", ", continued", ", second half")
"""Kinds that are recognized only with the lines that follow, which ways that take single lines do not see."""


@record
class Leak:
    """A piece of a secret that was seen."""

    kind: str
    way: str
    """How it came in."""
    where: str
    """Where it was seen."""
    piece: str


def missed(seed: int) -> list[Secret]:
    """Return the secrets that `sanitize` does not remove."""
    return [secret for secret in all_secrets(seed) if secret.seen_in(sanitize(secret.text))]


def spoiled(seed: int) -> list[str]:
    """Return the harmless lines that `sanitize` changes."""
    return [line for line in innocent_lines(seed) if sanitize(line) != line.strip()]


@record
class Rate:
    """How often something happened, with its 95 % confidence interval (Wilson)."""

    found: int
    tried: int

    def __str__(self) -> str:
        z, n, share = 1.96, self.tried, self.found / self.tried
        center = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        low, high = max(0.0, center - half), center + half
        return f"{self.found} of {n} ({share:.1%}, {low:.1%} to {high:.1%})"


def miss_rate(make: Callable[[bool], list[Secret]], *halves: bool) -> Rate:
    """Return how many made-up secrets `sanitize` misses; a half is the development (false) or held-out one (true)."""
    secrets = [secret for held_out in halves for secret in make(held_out)]
    return Rate(found=sum(bool(secret.seen_in(sanitize(secret.text))) for secret in secrets), tried=len(secrets))


def false_alarm_rate(*halves: bool) -> Rate:
    """Return how many harmless lines `sanitize` changes."""
    lines = [line for held_out in halves for line in lookalikes(held_out)]
    return Rate(found=sum(sanitize(line) != line.strip() for line in lines), tried=len(lines))


def pieces(secret: Secret) -> list[str]:
    """Return alphanumeric pieces of a secret, which no format escapes."""
    found: list[str] = []
    for hidden in secret.hidden:
        size = min(WINDOW, len(hidden))
        found += [
            hidden[at : at + size]
            for at in range(0, len(hidden) - size + 1, 3)
            if hidden[at : at + size].isalnum() and hidden[at : at + size].isascii()
        ]
    step = max(1, len(found) // PIECES)
    return found[::step]


def batches(size: int, seed: int) -> Iterator[list[Secret]]:
    """Yield as many secrets as there are ways in, until there were enough; no kind twice before all were once."""
    each = len(WAYS) + ANSWERED
    given: list[Secret] = []
    left = size
    while left > 0:
        while len(given) < min(each, left):
            made = [secret for secret in all_secrets(seed) if pieces(secret) and not secret.kind.endswith(BROKEN)]
            given += _one_of_each_kind_first(made, seed)
            seed += 1
        yield given[: min(each, left)]
        left -= len(given[: min(each, left)])
        given = given[each:]


def _one_of_each_kind_first(secrets: Sequence[Secret], seed: int) -> list[Secret]:
    seen: dict[str, int] = {}
    order = []
    for secret in secrets:
        seen[secret.kind] = seen.get(secret.kind, 0) + 1
        order.append((seen[secret.kind], crc32(f"{seed} {secret.kind} {seen[secret.kind]}".encode()), secret))
    return [secret for *_, secret in sorted(order, key=lambda one: one[:2])]


def leaks(folder: Path, secrets: Sequence[Secret]) -> tuple[list[Leak], int]:
    """Let each secret in by another way; return the leaks and the number of texts searched."""
    ways = [*WAYS, *(f"answer {number}" for number in range(1, ANSWERED + 1))]
    with Abused(folder) as abused:
        abused.project.tasks.add("Make the parser faster", "The parser reads config files.", priority=100)
        texts = [secret.text for secret in secrets] + ["nothing"] * (len(ways) - len(secrets))
        said, gate, beside = answers(texts[len(WAYS) :])
        (abused.root / "gate.txt").write_text(gate, "utf-8", "surrogatepass")
        (abused.root / "gate.sh").write_text("cat gate.txt; exit 1\n")
        abused.run(said, gate="sh gate.sh", beside=beside)
        for (_, let_in), text in zip(WAYS.items(), texts, strict=False):
            let_in(abused, text)
        seen = [*abused.shown(), *abused.served(), *abused.kept()]
    found = []
    for secret, way in zip(secrets, ways, strict=False):
        for piece in pieces(secret):
            found += [
                Leak(kind=secret.kind, way=way, where=where, piece=piece) for where, text in seen if piece in text
            ]
    return found, len(seen)


def run(folder: Path, size: int, seed: int) -> Shown:
    """Let `size` secrets in and count the leaks."""
    found: list[Leak] = []
    searched = 0
    for batch, secrets in enumerate(batches(size, seed)):
        one, texts = leaks(folder / str(batch), secrets)
        found += one
        searched += texts
    lost = {(leak.kind, leak.way, leak.piece) for leak in found}
    corpus, lines = all_secrets(seed), innocent_lines(seed)
    recall = 1 - len(missed(seed)) / len(corpus)
    return Shown(
        load=f"{size:,} made-up secrets, {len(WAYS) + ANSWERED} ways in, {searched:,} files and answers searched",
        tried=size,
        lost=len(lost),
        says=f"{recall:.1%} of {len(corpus)} known; {len(spoiled(seed))} of {len(lines)} innocent lines changed; "
        f"missed {miss_rate(ordinary, False, True)} ordinary and {miss_rate(hard, False, True)} hard secrets; "
        f"false alarms {false_alarm_rate(False, True)}",
    )


TRIALS = (Trial(name="secrets", test="secrets in output", allowed="0 seen again", size=1_000, run=run),)
