"""HTML pages rendered from Jinja templates with autoescaping."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup
from starlette.responses import HTMLResponse

from ralph.core.records import EPISODE_PREFIX, category_word, now, outcome_word
from ralph.core.text import one_line, without_gate_prefix
from ralph.web.markdown import render_inline_markdown, render_markdown, word_diff

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.core.records import FailureReport

FOLDER = Path(__file__).parent
TEMPLATES = FOLDER / "templates"
STATIC = FOLDER / "static"

environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)


UNKNOWN_VALUE = "–"
"""Placeholder for unknown values."""
_MINUTE, _HOUR, _DAY, _MONTH, _YEAR = 60, 3_600, 86_400, 86_400 * 30.4, 86_400 * 365
_HIGH_CONFIDENCE, _LOW_CONFIDENCE = 0.7, 0.4


def render(template: str, values: Mapping[str, Any]) -> str:
    """Render a template as HTML."""
    return environment.get_template(template).render(values)


# --- filters ----------------------------------------------------------------------------------------------------------


def ago(moment: str, at: str | None = None) -> str:
    """Format a timestamp relative to now; must match ui.js."""
    try:
        elapsed = (datetime.fromisoformat(at or now()) - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return moment
    size = abs(elapsed)
    if size < 45:
        return "just now"
    if size < _HOUR:
        count, unit = max(1, round(size / _MINUTE)), "min"
    elif size < _DAY:
        count, unit = round(size / _HOUR), "h"
    elif size < 45 * _DAY:
        count, unit = round(size / _DAY), "d"
    elif size < _YEAR:
        count, unit = round(size / _MONTH), "mo"
    else:
        count, unit = round(size / _YEAR), "y"
    return f"in {count} {unit}" if elapsed < 0 else f"{count} {unit} ago"


def when(moment: str | None) -> Markup:
    """Render a timestamp as relative time with the exact time as its title."""
    if not moment:
        return Markup('<span class="muted">{}</span>').format(UNKNOWN_VALUE)
    exact = moment[:19].replace("T", " ") + " UTC"
    return Markup('<time datetime="{}" title="{}" data-when>{}</time>').format(moment, exact, ago(moment))


def number(value: float | None, digits: int = 0) -> str:
    """Format a number with thousands separators."""
    return UNKNOWN_VALUE if value is None else f"{value:,.{digits}f}"


def figure(value: object) -> str:
    """Format a value of a learning: a number to two decimals, the others in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value, 2).rstrip("0").rstrip(".") if value % 1 else number(value)
    return UNKNOWN_VALUE if value is None else words(value)


def usd(value: float | None) -> str:
    """Format an amount in US dollars, with more digits if it is small."""
    if value is None:
        return UNKNOWN_VALUE
    return f"${value:,.4f}" if 0 < abs(value) < 0.1 else f"${value:,.2f}"


def percent(value: float | None, digits: int = 0) -> str:
    """Format a fraction as a percentage."""
    return UNKNOWN_VALUE if value is None else f"{value * 100:.{digits}f}%"


def points(value: float | None) -> str:
    """Format a difference of fractions in percentage points, with its sign."""
    return UNKNOWN_VALUE if value is None else f"{value * 100:+.1f}".replace("-", "−")


def seconds(value: float | None) -> str:
    """Format a duration."""
    if value is None:
        return UNKNOWN_VALUE
    if value < 0.05:
        return "0 s"
    if value < _MINUTE:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    if value < _HOUR:
        return f"{value // _MINUTE:.0f} min {int(value % _MINUTE)} s"
    return f"{value // _HOUR:.0f} h {int(value % _HOUR / _MINUTE)} min"


def words(text: object) -> str:
    """Return an identifier as words."""
    return category_word(str(text)).replace("_", " ")


def state_words(state: object) -> str:
    """Return the display name of a memory state."""
    return "deleted" if str(state) == "pruned" else words(state)


def level(value: float) -> str:
    """Return whether a confidence is high, middle or low."""
    return "high" if value >= _HIGH_CONFIDENCE else "middle" if value >= _LOW_CONFIDENCE else "low"


def short(text: object, length: int = 120) -> str:
    """Return the beginning of a text on one line."""
    return one_line(str(text), length)


def headline(why: str) -> str:
    """Return the error of a failure report: its first line, without the command of the gate."""
    return without_gate_prefix(why.partition("\n")[0])


def told_once(report: FailureReport) -> tuple[str, str]:
    """Return why an attempt failed and what was printed, where the reason goes on with what the trace begins with."""
    reason, _, rest = report.why.partition("\n")
    begins = report.trace.strip().partition("\n")[0]
    return (reason, rest) if begins and begins in rest else (report.why, report.trace)


def memory_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids of memories among those shown to an agent."""
    return [id for id in ids if not id.startswith(EPISODE_PREFIX)]


def episode_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids of episodes among those shown to an agent."""
    return [id for id in ids if id.startswith(EPISODE_PREFIX)]


environment.filters |= {
    one.__name__: one
    for one in (ago, when, number, figure, usd, percent, points, seconds, words, state_words, level, short)
}
environment.filters |= {"memory_ids": memory_ids, "episode_ids": episode_ids, "outcome_word": outcome_word}
environment.filters |= {"headline": headline, "told_once": told_once}
environment.filters |= {"marked": render_markdown, "stressed": render_inline_markdown, "worded": word_diff}


# --- pages before sign-in: self-contained, because static files cannot be loaded yet ----------------------------------


@cache
def _policy() -> str:
    style = render("sign_in.css", {}).encode()
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def _sign_in_page(status: int, headers: Mapping[str, str], **values: object) -> HTMLResponse:
    page = render("sign_in.html", {"title": "", "detail": "", "target": "", "asks_for_token": False, **values})
    return HTMLResponse(page, status, {"content-security-policy": _policy(), **headers})


def signed_in_page(target: str) -> HTMLResponse:
    """Return the page that forwards to the target after signing in."""
    return _sign_in_page(200, {}, target=target)


def rejection_page(status: int, detail: str, headers: Mapping[str, str]) -> HTMLResponse:
    """Return the page for a rejected request, with a sign-in form if the token is missing."""
    is_sign_in = status == HTTPStatus.UNAUTHORIZED
    title = "Sign in" if is_sign_in else HTTPStatus(status).phrase
    return _sign_in_page(status, headers, title=title, detail=detail, asks_for_token=is_sign_in)
