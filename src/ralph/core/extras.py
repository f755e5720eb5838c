"""Commands that install optional dependencies or a newer version."""

from __future__ import annotations

import os
import sys

PACKAGE = "ralph-memory"
"""Name of Ralph on the package index, where `ralph` is another project."""

# Commands that install and upgrade, by the file that marks an environment of the program.
_INSTALLERS = {
    "pipx_metadata.json": ("pipx install --force", "pipx upgrade"),
    "uv-receipt.toml": ("uv tool install --force", "uv tool upgrade"),
}
_PIP = ("pip install", "pip install --upgrade")


def install_hint(extra: str) -> str:
    """Return how to install an extra, with the program that installed Ralph, from where it was installed."""
    return f"install Ralph with the {extra} extra{_source(_commands()[0], f'[{extra}]')}"


def upgrade_command() -> str:
    """Return the command that installs the newest version of Ralph."""
    command = _commands()[1]
    # pipx and uv remember where it came from.
    return _source(command, "").removeprefix(": ") if command == _PIP[1] else f"{command} {PACKAGE}"


def _source(command: str, extras: str) -> str:
    """Return a command with what it installs, after where it has to be run if that matters."""
    origin = _origin()
    if origin is None:
        return f": {command} '{PACKAGE}{extras}'" if extras else f": {command} {PACKAGE}"
    url, is_editable = origin
    if not url.startswith("file:"):
        return f": {command} '{PACKAGE}{extras} @ {url}'"
    from shlex import quote
    from urllib.parse import unquote, urlsplit

    path = unquote(urlsplit(url).path)
    if not os.path.exists(path):  # noqa: PTH110
        return f", in a clone of Ralph: {command} '.{extras}'"
    return f": {command} {'-e ' if is_editable else ''}{quote(f'{path}{extras}')}"


def _origin() -> tuple[str, bool] | None:
    """Return the URL Ralph was installed from and whether it is editable; None if it came from a package index."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution(PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:  # run from its source
        return "file:", False
    if text is None:
        return None
    origin = json.loads(text)
    vcs = origin.get("vcs_info", {}).get("vcs", "")
    return f"{vcs}+{origin['url']}" if vcs else origin["url"], origin.get("dir_info", {}).get("editable", False)


def _commands() -> tuple[str, str]:
    marks = (name for name in _INSTALLERS if os.path.exists(f"{sys.prefix}/{name}"))  # noqa: PTH110
    return _INSTALLERS.get(next(marks, ""), _PIP)
