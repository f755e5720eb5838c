"""Writing of `.ralph.toml`: the template of a new project, and changes of single settings."""

from __future__ import annotations

import json

import tomlkit

from ralph.core.config import variable_name
from ralph.core.settings import SECTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ralph.core.settings import Section, Setting

COMMENT_COLUMN = 27
"""Column of the comments in the template."""
TEMPLATE_HEADER = (
    "# Ralph settings of this project. To change a default, uncomment its line and the [section] above it.\n"
    '# "for example" lines have no default.\n'
)


def config_template() -> str:
    """Return the `.ralph.toml` of a new project: all settings, commented out."""
    return "\n".join([TEMPLATE_HEADER, *("\n".join(lines) + "\n" for lines in map(_section_lines, SECTIONS.values()))])


def _section_lines(section: Section) -> Iterator[str]:
    yield _with_comment(f"# [{section.name}]", section.comment)
    tables = []
    for name, setting in section.settings.items():
        if isinstance(setting.default, dict):
            tables.append((name, setting))
        elif setting.is_listed:
            yield _setting_line(name, setting)
    for name, setting in tables:
        prefix = "for example: " if setting.example else ""
        yield ""
        yield _with_comment(f"# [{section.name}.{name}]", prefix + setting.comment)
        yield from (f"# {line}" for line in [setting.example] if line)
        yield from (f"# {key} = {to_toml(value)}" for key, value in setting.default.items())


def _setting_line(name: str, setting: Setting) -> str:
    if setting.example:
        return _with_comment(f"# {setting.example}", f"for example: {setting.comment}")
    return _with_comment(f"# {name} = {to_toml(setting.default)}", setting.comment)


def _with_comment(text: str, comment: str) -> str:
    return f"{text.ljust(COMMENT_COLUMN - 2)}  # {comment}" if comment else text


def to_toml(value: object) -> str:
    """Return a default value as TOML."""
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def set_toml_values(text: str, section: str, values: Mapping[str, str]) -> str:
    """Return the text of a `.ralph.toml` with string settings set in a section, and the rest unchanged."""
    document = tomlkit.parse(text)
    table = document.setdefault(section, tomlkit.table())
    table.update(values)
    return tomlkit.dumps(document)


def settings_table(section: Section) -> str:
    """Return the settings of a section as a markdown table."""
    rows = ["| setting | default | meaning | variable |", "|---|---|---|---|"]
    for name, setting in section.settings.items():
        if setting.is_listed:
            is_table = isinstance(setting.default, dict)
            default = "" if setting.example or is_table else f"`{to_toml(setting.default)}`"
            variable = "" if is_table else f"`{variable_name(section.name, name)}`"
            example = f"; for example `{setting.example}`" if setting.example else ""
            rows.append(f"| `{name}` | {default} | {setting.comment}{example} | {variable} |")
    return "\n".join(rows)
