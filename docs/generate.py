"""Generate what is derived from the program: `make docs`.

These are docs/cli.md, docs/http.md, the plugin's copy of the skill, and the tables between `<!-- generated: NAME -->`
and `<!-- end -->` in any page, one function of `TABLES` each.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ralph
from ralph.cli import COMMANDS, EPILOG, build_parser
from ralph.core.skill import SKILL_FILE, SKILL_NAME
from ralph.integrations.mcp.tools import TOOLS

HERE = Path(__file__).parent
PACKAGE = Path(ralph.__file__).parent
TABLE = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def cli_reference() -> str:
    """Return the reference of all commands as Markdown."""
    parts = [
        "# Command line\n\nGenerated from the program by `make docs`; do not edit.\n",
        f"```\n{EPILOG.strip()}\n```\n",
        "`-C DIR` before the command works in another directory.\n",
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


# --- tables -----------------------------------------------------------------------------


def mcp_tools() -> str:
    """Return the table of MCP tools."""
    return _table(("tool", "what it does"), [(f"`{tool.name}`", tool.description) for tool in TOOLS])


TABLES: dict[str, Callable[[], str]] = {"mcp-tools": mcp_tools}
"""Functions that return a table, by its name in pages."""


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _with_tables(page: str) -> str:
    return TABLE.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], page)


def generated_files() -> dict[Path, str]:
    """Return the content of all files that are derived from the program, by path."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(HERE.glob("*.md"))}
    return {
        **{page: _with_tables(text) for page, text in pages.items() if TABLE.search(text)},
        HERE / "cli.md": cli_reference(),
        HERE / "http.md": http_reference(),
        PACKAGE / "plugin" / "skills" / SKILL_NAME / "SKILL.md": SKILL_FILE,
    }


# --- agents -----------------------------------------------------------------------------

AGENTS_BEGIN, AGENTS_END = "<!-- agents: made by `make docs` -->\n", "<!-- end of agents -->\n"


def agents_page() -> str:
    """Return docs/agents.md with a current table of agents."""
    before, _, rest = (HERE / "agents.md").read_text(encoding="utf-8").partition(AGENTS_BEGIN)
    rows = [
        f"| `{name}` | {spec.description} | {'yes' if spec.reports_cost else 'no'} |"
        f" {'yes' if spec.reports_tokens else 'no'} | {'yes' if spec.is_connectable else 'no'} |\n"
        for name, spec in AGENTS.items()
        if spec.module
    ]
    head = "| name | what runs | reports cost | reports tokens | `ralph setup` |\n|---|---|---|---|---|\n"
    return before + AGENTS_BEGIN + head + "".join(rows) + AGENTS_END + rest.partition(AGENTS_END)[2]


if __name__ == "__main__":
    for path, text in generated_files().items():
        path.write_text(text, encoding="utf-8")
