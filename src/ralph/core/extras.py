"""Installation hint for optional dependencies."""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """Return how to install an extra, from the clone because the public index has another package of this name."""
    return f"install Ralph with the {extra} extra: run pip install '.[{extra}]' in its clone"
