"""How pages are made: templates, in which everything is text unless we wrote it ourselves."""

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

from ralph.records import now
from ralph.server.marking import marked, stressed, worded
from ralph.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

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


UNKNOWN = "–"
"""What is shown for what is not known."""
_MINUTE, _HOUR, _DAY, _MONTH, _YEAR = 60, 3_600, 86_400, 86_400 * 30.4, 86_400 * 365
_SURE, _UNSURE = 0.7, 0.4


def render(template: str, values: Mapping[str, Any]) -> str:
    """Give a page as HTML."""
    return environment.get_template(template).render(values)


# --- how values are shown ---------------------------------------------------------------------------------------------


def ago(moment: str, at: str | None = None) -> str:
    """Give how long ago a moment was, in a few characters; the same rule as in ui.js."""
    try:
        passed = (datetime.fromisoformat(at or now()) - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return moment
    size = abs(passed)
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
    return f"in {count} {unit}" if passed < 0 else f"{count} {unit} ago"


def when(moment: str | None) -> Markup:
    """Give a moment as people say it, with the exact one behind it."""
    if not moment:
        return Markup('<span class="muted">{}</span>').format(UNKNOWN)
    exact = moment[:19].replace("T", " ") + " UTC"
    return Markup('<time datetime="{}" title="{}" data-when>{}</time>').format(moment, exact, ago(moment))


def number(value: float | None, digits: int = 0) -> str:
    """Give a number with its thousands apart."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def usd(value: float | None) -> str:
    """Give an amount of money; of a small one more digits."""
    if value is None:
        return UNKNOWN
    return f"${value:,.4f}" if 0 < abs(value) < 0.1 else f"${value:,.2f}"


def percent(value: float | None, digits: int = 0) -> str:
    """Give a share of 1 as a percentage."""
    return UNKNOWN if value is None else f"{value * 100:.{digits}f} %"


def points(value: float | None) -> str:
    """Give a difference of two shares of 1, in percentage points with its sign."""
    return UNKNOWN if value is None else f"{value * 100:+.1f}".replace("-", "−")


def seconds(value: float | None) -> str:
    """Give a length of time."""
    if value is None:
        return UNKNOWN
    if value < _MINUTE:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    if value < _HOUR:
        return f"{value // _MINUTE:.0f} min {int(value % _MINUTE)} s"
    return f"{value // _HOUR:.0f} h {int(value % _HOUR / _MINUTE)} min"


def words(text: object) -> str:
    """Give a name of a program as words."""
    return str(text).replace("_", " ")


def state_words(state: object) -> str:
    """Give what people call the state of a memory; the same as in ui.js."""
    return "deleted" if str(state) == "pruned" else words(state)


def level(value: float) -> str:
    """Say whether a confidence is high, middle or low."""
    return "high" if value >= _SURE else "middle" if value >= _UNSURE else "low"


def short(text: object, length: int = 120) -> str:
    """Give the beginning of a text in one line."""
    return one_line(str(text), length)


environment.filters |= {
    one.__name__: one for one in (ago, when, number, usd, percent, points, seconds, words, state_words, level, short)
}
environment.filters |= {"marked": marked, "stressed": stressed, "worded": worded}


# --- before anybody is let in: nothing of the server can be loaded yet, so these hold all they need ------------------


@cache
def _policy() -> str:
    style = render("door.css", {}).encode()
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def _door(status: int, headers: Mapping[str, str], **values: object) -> HTMLResponse:
    page = render("door.html", {"title": HTTPStatus(status).phrase, "detail": "", "target": "", **values})
    return HTMLResponse(page, status, {"content-security-policy": _policy(), **headers})


def entering(target: str) -> HTMLResponse:
    """Give the page that leads on, once the token is in the cookie."""
    return _door(200, {}, target=target)


def refusal(status: int, detail: str, headers: Mapping[str, str]) -> HTMLResponse:
    """Give the page for those who may not come in."""
    return _door(status, headers, detail=detail, asks_for_token=status == HTTPStatus.UNAUTHORIZED)
