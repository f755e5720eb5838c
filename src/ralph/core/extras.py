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
    """Return how to install an extra, with the program that installed Ralph."""
    return f"install Ralph with the {extra} extra: {_commands()[0]} '{PACKAGE}[{extra}]'"


def upgrade_command() -> str:
    """Return the command that installs the newest version of Ralph."""
    return f"{_commands()[1]} {PACKAGE}"


def _commands() -> tuple[str, str]:
    marks = (name for name in _INSTALLERS if os.path.exists(f"{sys.prefix}/{name}"))  # noqa: PTH110
    return _INSTALLERS.get(next(marks, ""), _PIP)
