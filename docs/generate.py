"""Generate what is derived from the program: `make docs`.

These are docs/cli.md, docs/http.md, docs/configuration.md, the plugin's copy of the skill, and the tables between
`<!-- generated: NAME -->` and `<!-- end -->` in any page, one function of `TABLES` each.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ralph
from ralph.cli import COMMANDS, EPILOG, build_parser
from ralph.core.agents import AGENTS
from ralph.core.config_file import settings_table
from ralph.core.memory_types import MEMORY_TYPES
from ralph.core.permissions import OPERATIONS, Operation
from ralph.core.settings import PERSONAL_SECTIONS, SECTIONS
from ralph.core.skill import SKILL_FILE, SKILL_NAME
from ralph.formats.registry import format_table
from ralph.integrations.mcp.tools import TOOLS
from ralph.loop.integrity.protected import PATTERNS
from ralph.memory.recall.rankers import RANKERS
from ralph.web.pages import NAVIGATION

HERE = Path(__file__).parent
PACKAGE = Path(ralph.__file__).parent
TABLE = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def cli_reference() -> str:
    """Return the reference of all commands as Markdown."""
    parts = [
        "# Command line\n\nGenerated from the program by `make docs`; do not edit.\n",
        f"```\n{EPILOG.strip()}\n```\n",
        "`-C DIR` before the command works in another directory. `--trust` before the command trusts the directory with"
        " what it brings, and remembers it; see [trust.md](trust.md). `--plain`, anywhere, or `RALPH_PLAIN=1` prints"
        " text without colors, symbols and moving lines, for screen readers. `ralph` alone says where the project"
        " stands and what to do next.\n",
    ]
    for name, text in COMMANDS.items():
        parser = _subcommands(build_parser(name))[name]
        parts.append(f"## ralph {name}\n\n{text}.\n")
        if parser.epilog:
            parts.append(f"```\n{parser.epilog.strip()}\n```\n")
        parts += list(_command(f"ralph {name}", parser))
    return "\n".join(parts)


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    actions = _subcommands(parser)
    if actions:
        for action, one in actions.items():
            yield f"### {name} {action}\n\n{one.description}\n"
            yield from _command(f"{name} {action}", one)
        return
    rows = [
        f"| `{_form(action)}` | {action.help or ''} |"
        for action in parser._actions
        if action.help != argparse.SUPPRESS and action.dest != "help"
    ]
    if rows:
        yield "\n".join(["| argument | meaning |", "|---|---|", *rows]) + "\n"


def _form(action: argparse.Action) -> str:
    value = str(action.metavar or "/".join(map(str, action.choices or [])) or action.dest.upper())
    if not action.option_strings:
        return f"[{value}]" if action.nargs in ("?", "*") else value
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}")


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


# --- HTTP -------------------------------------------------------------------------------


def http_reference() -> str:
    """Return the reference of the HTTP API as Markdown."""
    from ralph.web.openapi import openapi_document

    described = openapi_document()
    groups: dict[str, list[str]] = {}
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append(_http_call(method.upper(), path, operation))
    parts = [
        "# HTTP API\n\nGenerated from the program by `make docs`; do not edit. Authentication and errors are described"
        " in [dashboard.md](dashboard.md); `/api/openapi.json` of a running server has every field of every response.\n"
    ]
    for name, calls in groups.items():
        parts += [f"## {name.capitalize()}\n", *calls]
    return "\n".join(parts)


def _http_call(method: str, path: str, operation: dict[str, Any]) -> str:
    lines = [f"### {method} {path}\n\n{operation['summary']}"]
    if operation.get("description"):
        lines.append("\n" + operation["description"])
    rows = [
        f"| `{one['name']}` | {_http_type(one['schema'])} | {one.get('description', '')} |"
        for one in operation["parameters"]
        if one["in"] == "query"
    ]
    body = operation.get("requestBody")
    if body:
        from ralph.web.openapi import openapi_document

        schema = body["content"]["application/json"]["schema"]
        fields = openapi_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        needed = fields.get("required", ())
        rows += [
            f"| `{name}` in the body{', required' if name in needed else ''} | {_http_type(field)} |"
            f" {field.get('description', '')} |"
            for name, field in fields["properties"].items()
        ]
    if rows:
        lines.append("\n" + "\n".join(["| parameter | type | meaning |", "|---|---|---|", *rows]))
    return "\n".join(lines) + "\n"


def _http_type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_http_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return ", ".join(str(one) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_http_type(schema.get('items', {}))}"
    if "$ref" in schema:
        from ralph.web.openapi import openapi_document

        return _http_type(openapi_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    return str(schema.get("type", "any"))


# --- configuration ------------------------------------------------------------------------


CONFIGURATION = """\
# Configuration

Generated by `make docs`; do not edit.

Settings are in `.ralph.toml` in the project directory. `ralph init` writes it with all settings commented out:

```toml
[execution]
gates = ["make test"]

[agent]
name = "claude"
```

Later sources override earlier ones: `.ralph.toml`, the `memories:` block of a `ralph.yml`, the environment variables
below, and the options of `ralph run`. In a variable, a command has shell quoting, and other lists have one item per
line. An unknown key is a warning, an invalid value an error.

In a file, settings that decide what runs or where data is stored count only in a directory that you trust:
[trust.md](trust.md).
"""


PERSONAL_CONFIGURATION = """\
## Your own settings

These count in all your projects. They are read from `~/.config/ralph/config.toml` (or `$XDG_CONFIG_HOME`) and from
variables; in a file of a project they do not count, because they hold secrets and say where to send things.
"""


def configuration_reference() -> str:
    """Return the reference of all settings as markdown."""
    parts = [CONFIGURATION]
    for section in SECTIONS.values():
        comment = f"{section.comment[0].upper()}{section.comment[1:]}.\n\n" if section.comment else ""
        parts.append(f"## [{section.name}]\n\n{comment}{settings_table(section)}\n")
    parts.append(PERSONAL_CONFIGURATION)
    for section in PERSONAL_SECTIONS.values():
        comment = f"{section.comment[0].upper()}{section.comment[1:]}.\n\n"
        parts.append(f"### [{section.name}]\n\n{comment}{settings_table(section)}\n")
    return "\n".join(parts)


# --- tables -----------------------------------------------------------------------------


def mcp_tools() -> str:
    """Return the table of MCP tools."""
    return _table(("tool", "what it does"), [(f"`{tool.name}`", tool.description) for tool in TOOLS.values()])


def agents() -> str:
    """Return the table of the agents that Ralph can run."""
    heading = ("name", "what runs", "reports cost", "reports tokens", "`ralph setup`")
    return _table(
        heading,
        [
            (
                f"`{name}`",
                spec.description,
                *("yes" if flag else "no" for flag in (spec.reports_cost, spec.reports_tokens, spec.is_connectable)),
            )
            for name, spec in AGENTS.items()
            if spec.module
        ],
    )


def memory_types() -> str:
    """Return the table of memory types that people can choose."""
    rows = [
        (f"`{one.name}`", one.description, "yes" if one.is_signal else "", "yes" if one.file_section else "")
        for one in MEMORY_TYPES.values()
        if one.heading
    ]
    return _table(("type", "what it is for", "`MEMORY:` line", "in `memories.md`"), rows)


def rankers() -> str:
    """Return the table of published ranking formulas."""
    return _table(("ranker", "what it ranks by"), [(f"`{one.name}`", one.description) for one in RANKERS.values()])


def dashboard_pages() -> str:
    """Return the table of dashboard pages."""
    return _table(("page", "what it shows"), [(page.label, page.description) for page in NAVIGATION])


def settings_to_trust() -> str:
    """Return the table of settings that count only in a trusted directory."""
    rows = [
        (f"`[{name}] {key}`", setting.comment)
        for name, section in SECTIONS.items()
        for key, setting in section.settings.items()
        if setting.needs_trust
    ]
    return _table(("setting", "meaning"), rows)


def permissions() -> str:
    """Return the table of operations, and which of them agents may do."""

    def answer(operation: Operation, is_allowed: bool) -> str:
        return f"yes{operation.condition and ': '}{operation.condition}" if is_allowed else "no"

    rows = [
        (f"`{one.name}`", one.action, answer(one, one.in_session), answer(one, one.outside))
        for one in sorted(OPERATIONS.values(), key=lambda one: not (one.in_session or one.outside))
    ]
    reading = ("read", "list, show, search, recall, export, verify", "yes", "yes")
    return _table(("operation", "what it does", "agent in the loop", "agent outside the loop"), [reading, *rows])


def protected_files() -> str:
    """Return the table of files that are protected by default."""
    rows = [(f"{kind}", ", ".join(f"`{one}`" for one in patterns)) for kind, patterns in PATTERNS.items()]
    return _table(("group", "files"), rows)


def decisions() -> str:
    """Return the list of decisions."""
    pages = sorted((HERE / "decisions").glob("0*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for page in pages]
    return "".join(f"- [{title}]({page.name})\n" for page, title in zip(pages, titles, strict=True))


TABLES: dict[str, Callable[[], str]] = {
    "agents": agents,
    "dashboard-pages": dashboard_pages,
    "decisions": decisions,
    "file-formats": lambda: f"{format_table()}\n",
    "mcp-tools": mcp_tools,
    "memory-types": memory_types,
    "permissions": permissions,
    "protected-files": protected_files,
    "rankers": rankers,
    "trust": settings_to_trust,
}
"""Functions that return a table, by its name in pages."""


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _with_tables(page: str) -> str:
    return TABLE.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], page)


def generated_files() -> dict[Path, str]:
    """Return the content of all files that are derived from the program, by path."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted([*HERE.glob("*.md"), *HERE.glob("*/README.md")])}
    return {
        **{page: _with_tables(text) for page, text in pages.items() if TABLE.search(text)},
        HERE / "cli.md": cli_reference(),
        HERE / "configuration.md": configuration_reference(),
        HERE / "http.md": http_reference(),
        PACKAGE / "plugin" / "skills" / SKILL_NAME / "SKILL.md": SKILL_FILE,
    }


if __name__ == "__main__":
    for path, text in generated_files().items():
        path.write_text(text, encoding="utf-8")
