"""Addresses of pages, with what is asked of them."""

from __future__ import annotations

from urllib.parse import urlencode


def address(path: str, **asked: str | None) -> str:
    """Give a page's address; what is empty is not asked."""
    said = urlencode({name: value for name, value in asked.items() if value})
    return f"{path}?{said}" if said else path
