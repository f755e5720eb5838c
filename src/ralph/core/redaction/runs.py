"""Redaction of values that look random: by the rules of gitleaks, by words close to them, and by decoding them."""

from __future__ import annotations

from ralph.core.redaction.encoded import base64_spans
from ralph.core.redaction.gitleaks import gitleaks_spans
from ralph.core.redaction.nearby import nearby_spans
from ralph.core.redaction.tokens import replace_spans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def redact_random(text: str, view: str, runs: Sequence[tuple[int, int]], redact: Callable[[str], str] | None) -> str:
    """Return the text without secrets among its random values.

    `view` is the unescaped text, `runs` are the positions of the values, and `redact` is applied to what is decoded.
    """
    spans = [*gitleaks_spans(view, runs), *nearby_spans(view, runs)]
    if redact:
        spans += base64_spans(view, runs, redact)
    return replace_spans(text, spans)
