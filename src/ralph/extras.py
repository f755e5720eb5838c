"""How to install what Ralph can do without: one wording, for every part that misses something."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Give what to do to have an extra; from the clone, because another package has our name on the public index."""
    return f"install Ralph with its extra {extra}: pip install '.[{extra}]' in its clone"
