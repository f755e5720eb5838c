"""URLs of dashboard pages."""

from __future__ import annotations

from urllib.parse import urlencode


def page_url(path: str, **parameters: str | None) -> str:
    """Return the URL of a page, without empty parameters."""
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{path}?{query}" if query else path
