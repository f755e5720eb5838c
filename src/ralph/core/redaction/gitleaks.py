"""Detection of secrets with the rules of gitleaks.

A rule is a format (`dop_v1_` and 64 hexadecimal digits), or the name of a provider and the format of what is assigned
to it. Patterns are compiled when one of their keywords occurs close to a value that may be random.
"""

from __future__ import annotations

from functools import cache

from ralph.core.redaction.randomness import entropy, is_placeholder
from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WINDOW_BEFORE, WINDOW_AFTER = 90, 10
"""Characters searched before and after a run."""

_GAP = (
    r"[\w.\- \t]{0,24}[\\'\"`\s*)\]]{0,4}(?:\[0m)?(?:=>|:=|->|[:=>|,]|\b(?:is|was|key|token|secret|password)\b)"
    r"(?:\[[\d;]{1,5}m)?[\\'\"`\s=*(<]{0,5}"
)
"""What stands between the name of a provider and a value."""
_HARMLESS_GAP = (
    r"(?i)commit|sha\d?|digest|hash|version|build|image|revision|checksum|fingerprint|release|public|trace"
    r"|(?:\b|_|[a-z](?=I))ids?\b"
)
_REST = r"(?a)[\w-]{0,1000}={0,2}"


def gitleaks_spans(text: str, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each secret that a rule finds; rules are tried close to the runs only."""
    parts = [(start, end, text[start:end].lower()) for start, end in _neighborhoods(runs)]
    lowered = "\n".join(part for *_, part in parts)
    for keyword, rules in _rules().items():
        if keyword in lowered:
            for start, end, part in parts:
                if keyword in part:
                    for rule in rules:
                        yield from _matches(text, start, end, *rule)


@cache
def _rules() -> dict[str, list[tuple[str, str, float]]]:
    """Return name, value and entropy of the rules by keyword."""
    from ralph.core.redaction.gitleaks_rules import RULES

    found: dict[str, list[tuple[str, str, float]]] = {}
    for keywords, name, value, threshold in RULES:
        for keyword in keywords:
            found.setdefault(keyword, []).append((name, value, threshold))
    return found


def _neighborhoods(runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text with runs and what stands before them, without overlaps."""
    start, end = max(0, runs[0][0] - WINDOW_BEFORE), runs[0][1]
    for next_start, next_end in runs:
        if next_start - WINDOW_BEFORE > end:
            yield start, end + WINDOW_AFTER
            start = next_start - WINDOW_BEFORE
        end = next_end
    yield start, end + WINDOW_AFTER


def _matches(text: str, start: int, end: int, name: str, value: str, threshold: float) -> Iterator[tuple[int, int]]:
    pattern = f"(?i:({name}{_GAP}))({value})(?![A-Za-z0-9])" if name else rf"(?a:\b)()({value})"
    for match in compiled_pattern(pattern).finditer(text, start, end):
        secret = match[2]
        if entropy(secret) < threshold or is_placeholder(secret) or (name and _is_harmless(match[1], secret)):
            continue
        rest = compiled_pattern(_REST).match(text, match.end())
        yield match.start(2), rest.end() if rest else match.end()


def _is_harmless(before: str, value: str) -> bool:
    """Return whether what was assigned to a provider is no secret: a word, a number or a hash."""
    return not any(character.isdigit() for character in value) or bool(compiled_pattern(_HARMLESS_GAP).search(before))
