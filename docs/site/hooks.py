"""Hooks of MkDocs: pages from outside of docs/, and links that lead out of the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
CHANGELOG = "changelog.md"
OUTSIDE = {"CHANGELOG.md": CHANGELOG, "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
"""Pages of the site for files at the top of the repository."""

LOADED = re.compile(
    r"""<(?:script|img|iframe|video|link\b[^>]*\brel="?stylesheet)[^>]*(?:src|href)="?(?:https?:)?//[^\s>]*"""
)
LINK = re.compile(r"\[([^\]\n]*(?:\n[^\]\n]*)?)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the changelog."""
    files.append(File.generated(config, CHANGELOG, content=(ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Lead links to pages of the site; what else the repository has is named instead."""
    folder = posixpath.dirname(page.file.src_uri)
    base = "" if page.file.src_uri == CHANGELOG else posixpath.join("docs", folder)
    if folder == "decisions":
        page.meta["search"] = {"boost": 0.3}  # what a page explains comes before why it is so

    def replaced(link: re.Match[str]) -> str:
        text, path, anchor = link[1], link[2], link[3] or ""
        place = posixpath.normpath(posixpath.join(base, path))
        if not (ROOT / place).exists():
            return link[0]
        if place.startswith("docs/"):
            target = place.removeprefix("docs/") + ("/README.md" if (ROOT / place).is_dir() else "")
        elif place in OUTSIDE:
            target = OUTSIDE[place]
        else:
            return f"`{place}`" if text.strip("`") == place else f"{text} (`{place}`)"
        if text == path:  # the name of a file is for readers of the repository
            text = _title(ROOT / "docs" / target)
        return f"[{text}]({posixpath.relpath(target, folder or '.')}{anchor})"

    return LINK.sub(replaced, markdown)


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Refuse a page that would load something from elsewhere."""
    if found := LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads something from elsewhere: {found[0]}")
    return output


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") if page.is_file() else page.stem
