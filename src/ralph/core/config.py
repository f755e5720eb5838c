"""Loading of the configuration: `.ralph.toml`, the `memories:` block of `ralph.yml`, environment variables and flags.

Later sources override earlier ones. An unknown key is a warning, so that an older Ralph can read a newer file. An
invalid value is an error, because guessing what was meant in an unattended run costs money.
"""

from __future__ import annotations

import os

from ralph.core.errors import ConfigError
from ralph.core.files import is_inside, path_exists
from ralph.core.records import replace
from ralph.core.settings import (
    HATS,
    MAX_NUMBER,
    PERMISSIONS,
    PERSONAL_SECTIONS,
    SECTIONS,
    STRATEGIES,
    AgentConfig,
    Config,
    ExecutionConfig,
    FilterConfig,
    HatsConfig,
    LimitsConfig,
    MemoriesConfig,
    ModelsConfig,
    NotifyConfig,
    PromptConfig,
    StoreConfig,
)
from ralph.core.store_url import is_ambiguous
from ralph.core.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from ralph.core.settings import Section, Setting

__all__ = [
    "HATS",
    "PERMISSIONS",
    "STRATEGIES",
    "AgentConfig",
    "Config",
    "ExecutionConfig",
    "FilterConfig",
    "HatsConfig",
    "LimitsConfig",
    "MemoriesConfig",
    "ModelsConfig",
    "NotifyConfig",
    "PromptConfig",
    "StoreConfig",
    "apply_flags",
    "check_store_url",
    "load_config",
    "load_notify_config",
    "parse_toml",
    "read_working_copy",
]

TOML_NAME = ".ralph.toml"
YAML_NAMES = ("ralph.yml", "ralph.yaml")
WORKING_COPY_FILE = "place"
WORKING_COPY_PATH = f".ralph/{WORKING_COPY_FILE}"
"""File with the id of the working copy, its directory and its project."""
STORE_VARIABLE = "RALPH_STORE"
"""Environment variable that overrides `store.url`."""
MAX_CONFIG_KB = 64
"""Maximum size of a configuration file. PyYAML reads about 100 KB per second."""
MAX_TOML_KB = 128
"""Maximum size of any other TOML file. tomlkit, which edits it, takes 1 s or more for it."""
MAX_TOML_DOTS = 300
"""Maximum number of dots in a line of TOML, because reading a key takes time quadratic in its parts."""
MAX_CONFIG_WARNINGS = 50
"""Maximum number of warnings about a configuration."""
_HEADERS = {
    *("", *(f"[{name}]" for name in SECTIONS)),
    *(f"[{name}.{key}]" for name, section in SECTIONS.items() for key in (*section.settings, *section.aliases)),
}
"""Lines that set nothing."""
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def load_config(directory: Path | str, environment: Mapping[str, str] = os.environ) -> Config:
    """Read the settings of the project in a directory."""
    warnings: list[str] = []
    values: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for source, tables in _read_files(os.fspath(directory)):
        for name, table in tables.items():
            if name in SECTIONS:
                _parse_section(source, SECTIONS[name], table, values, warnings)
            elif name in PERSONAL_SECTIONS:
                warnings.append(f"{source}: ignoring [{name}], which is personal. Set it in {personal_file()}.")
            else:
                _warn_unknown_key(warnings, source, name, SECTIONS)
    brought = _values_to_trust(values)
    overridden = set()
    for section in SECTIONS.values():
        found = _read_environment(section, environment, warnings)
        values[section.name] |= found
        overridden |= {f"{section.name}.{key}" for key in found}
    _apply_store_variable(values["store"], directory, environment, brought, overridden)
    untrusted = _withhold(directory, values, brought, overridden, environment, warnings)
    sections: dict[str, Any] = {}
    for name, section in reversed(SECTIONS.items()):  # subsections before the section they belong to
        parent, _, key = name.partition(".")
        (values[parent] if key else sections)[key or name] = section.build(**values[name])
    return Config(**sections, warnings=tuple(warnings), brought=brought, untrusted=untrusted)


def load_notify_config(environment: Mapping[str, str] = os.environ) -> NotifyConfig:
    """Read where notifications go: from a person's own file and variables, never from a file of a project.

    Not part of `load_config`, because only runs need it.
    """
    section, warnings, path = PERSONAL_SECTIONS["notify"], list[str](), personal_file(environment)
    values: dict[str, dict[str, Any]] = {section.name: {}}
    if path_exists(path):
        directory, _, name = path.rpartition("/")
        try:
            table = parse_toml(_read_text(directory, name), MAX_CONFIG_KB).get(section.name, {})
        except (ValueError, OSError) as error:
            # The cause may quote a line with a token.
            raise ConfigError(f"Cannot read {path}: it is not valid TOML, or cannot be read.") from error
        _parse_section(path, section, table, values, warnings)
    values[section.name] |= _read_environment(section, environment, warnings)
    return NotifyConfig(**values[section.name])


def personal_file(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of a person's own settings."""
    folder = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return f"{folder}/ralph/config.toml"


# --- files -------------------------------------------------------------------------


def _read_files(directory: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    if os.path.lexists(f"{directory}/{TOML_NAME}"):
        found.append((TOML_NAME, _read_toml(directory)))
    for name in YAML_NAMES:
        if path_exists(f"{directory}/{name}"):
            found.append((name, _read_yaml(directory, name)))
    return found


def _read_toml(directory: str) -> dict[str, Any]:
    try:
        text = _read_text(directory, TOML_NAME)
        # Importing tomllib takes 10 ms, and the file that `ralph init` writes sets nothing.
        if {line.split("#", 1)[0].strip() for line in text.splitlines()} <= _HEADERS:
            return {}
    except (ValueError, OSError) as error:
        raise ConfigError(f"Cannot read {TOML_NAME}: {one_line(clean(str(error)))}.") from error
    try:
        return parse_toml(text)
    except ValueError as error:
        from ralph.core.toml_problems import describe_toml_problem

        raise ConfigError(describe_toml_problem(TOML_NAME, text, error)) from error


def parse_toml(text: str, max_kb: int = MAX_TOML_KB) -> dict[str, Any]:
    """Parse TOML; raise `ValueError` if it is invalid, or would take long to read."""
    import re
    import tomllib

    if len(text) > max_kb * 1024:
        raise ValueError(f"it is larger than {max_kb} KB")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MAX_TOML_DOTS and len(re.findall(r"\.[ \t]*[^\s.]", line)) > MAX_TOML_DOTS:
            raise ValueError(f"line {number} has more than {MAX_TOML_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _read_text(directory: str, name: str) -> str:
    path = f"{directory}/{name}"
    if not is_inside(path, directory):
        raise ValueError("it is a symlink that points outside the project")
    if not path_exists(path) or not os.path.isfile(path) or os.path.getsize(path) > MAX_CONFIG_KB * 1024:  # noqa: PTH113, PTH202
        raise ValueError(f"it is not a regular file of at most {MAX_CONFIG_KB} KB")
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


def _read_yaml(directory: str, name: str) -> dict[str, Any]:
    """Return the `memories` section of a ralph.yml; the rest belongs to other programs."""
    import yaml

    try:
        tree = yaml.safe_load(_read_text(directory, name))
    except (yaml.YAMLError, OSError, RecursionError, ValueError, LookupError, AttributeError) as error:
        # PyYAML raises the last two for tagged scalars such as `!!int ""`.
        raise ConfigError(f"Cannot read {name}: {one_line(clean(str(error)))}.") from error
    if isinstance(tree, dict) and tree.get("memories") is not None:
        return {"memories": tree["memories"]}
    return {}


# --- values ------------------------------------------------------------------------


def _parse_section(
    source: str, section: Section, table: object, values: dict[str, dict[str, Any]], warnings: list[str]
) -> None:
    """Add the known keys of a section to the values, and a warning for each unknown or renamed key."""
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {section.name} must be a section{_instead(section.name, table)}.")
    aliases = section.aliases
    for written, value in table.items():
        name, key = f"{section.name}.{written}", aliases.get(written, written)
        if key != written:
            _warn_renamed(warnings, source, name, f"{section.name}.{key}")
            if key in table:
                continue
        if name in SECTIONS:
            _parse_section(source, SECTIONS[name], value, values, warnings)
        elif key not in section.settings:
            _warn_unknown_key(warnings, source, name, [f"{section.name}.{known}" for known in section.settings])
        elif isinstance(section.settings[key].default, dict):
            values[section.name][key] = _parse_table(source, name, section.settings[key], value, warnings)
        else:
            values[section.name][key] = _convert(source, name, section.settings[key], value)


def _parse_table(source: str, name: str, setting: Setting, table: object, warnings: list[str]) -> dict[str, Any]:
    """Return the items of a setting that is a table itself, with its defaults for the others."""
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {name} must be a section, not {_display(table)}.")
    items = dict(setting.default)
    for key, value in table.items():
        if setting.keys and key not in setting.keys:
            _warn_unknown_key(warnings, source, f"{name}.{key}", [f"{name}.{known}" for known in setting.keys])
        else:
            items[key] = _convert(source, f"{name}.{_printable(key)}", replace(setting, default=setting.item), value)
    return items


def _convert(source: str, name: str, setting: Setting, value: Any) -> object:
    """Convert a value to the type of the default; raise `ConfigError` if it does not fit."""
    default, expected = setting.default, _expected(setting, value)
    if expected:
        raise ConfigError(f"{source}: {name} must be {expected}{_instead(name, value)}.")
    if setting.check and (expected := setting.check(value)):
        # The value may be NAME=value with a secret, so it is not shown.
        raise ConfigError(f"{source}: {name} must be {expected}.")
    if isinstance(default, tuple):
        return tuple(map(float, value)) if _is_numbers(default) else tuple(value)
    return float(value) if isinstance(default, float) else value


def _instead(name: str, value: Any) -> str:
    """Return the part of an error that shows a value, which personal settings keep to themselves: URLs and tokens."""
    return "" if name.partition(".")[0] in PERSONAL_SECTIONS else f", not {_display(value)}"


def _expected(setting: Setting, value: Any) -> str:
    """Return what a value must be, or an empty string if it is valid."""
    default, choices = setting.default, setting.choices
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(default, int | float):
        if _is_number(value, type(default)) and setting.minimum <= value <= setting.maximum:
            return ""
        upper = f" and at most {setting.maximum:,}" if setting.maximum != MAX_NUMBER else ""
        return f"a {'whole ' if isinstance(default, int) else ''}number of {setting.minimum} or more{upper}"
    if _is_numbers(default):
        if isinstance(value, list) and len(value) == len(default) and all(_is_number(one, float) for one in value):
            return ""
        return "two numbers like [3.0, 15.0]"
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(_is_choice(item, choices) for item in value):
            return f"a list of {', '.join(choices)}" if choices else 'a list of strings like ["one", "two"]'
        is_valid = not setting.is_unique or 0 < len(value) == len(set(value))
        return "" if is_valid else "a list of different values"
    return "" if _is_choice(value, choices) else " or ".join(filter(None, choices)) or "a string"


def _is_number(value: object, kind: type) -> bool:
    numbers = int | float if kind is float else int
    return isinstance(value, numbers) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER


def _is_numbers(default: object) -> bool:
    return isinstance(default, tuple) and bool(default) and isinstance(default[0], float)


def _is_choice(value: object, choices: tuple[str, ...]) -> bool:
    return isinstance(value, str) and (not choices or value in choices)


def _printable(name: object) -> str:
    """Return a name from a file in a form that is safe to print."""
    return one_line(clean(str(name)), 80)


def _display(value: object) -> str:
    from reprlib import repr as short_repr

    try:
        return one_line(clean(short_repr(value)), 80)
    except ValueError:  # an integer with too many digits for repr()
        return "this number"


def _warn_unknown_key(warnings: list[str], source: str, name: str, known: Iterable[str]) -> None:
    """Add a warning about an unknown key."""
    import difflib

    if len(warnings) == MAX_CONFIG_WARNINGS:
        warnings.append(f"{source}: ignoring more unknown keys.")
    if len(warnings) > MAX_CONFIG_WARNINGS:
        return
    name = _printable(name)
    close = difflib.get_close_matches(name, list(known), n=1)
    homes = [f"[{one.name}]" for one in SECTIONS.values() if name.rpartition(".")[2] in one.settings]
    hint = f" It belongs under {' or '.join(homes)}." if homes else f" Did you mean {close[0]}?" if close else ""
    warnings.append(f"{source}: ignoring unknown key {name}.{hint}")


def _warn_renamed(warnings: list[str], source: str, old: str, new: str) -> None:
    warnings.append(f"{source}: {old} was renamed. Use {new}.")


# --- trust ---------------------------------------------------------------------------


def _values_to_trust(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values that need trust, by name; a default needs none."""
    return {
        f"{name}.{key}": value
        for name, table in values.items()
        for key, value in table.items()
        if (setting := SECTIONS[name].settings[key]).needs_trust and value != setting.default
    }


def _withhold(
    directory: Path | str,
    values: dict[str, dict[str, Any]],
    brought: dict[str, Any],
    overridden: Collection[str],
    environment: Mapping[str, str],
    warnings: list[str],
) -> tuple[str, ...]:
    """Remove values that nobody has accepted, except of the store; return the names of all that are not trusted.

    These include accepted settings that the files no longer have: the defaults count, and may be more permissive.
    """
    from ralph.core.trust_record import find_removed, find_untrusted, is_outside, untrusted_text

    url = values["store"].get("url", "")
    if not url or not is_outside(directory, url):
        for key in SECTIONS["store"].settings:
            brought.pop(f"store.{key}", None)
    in_use = {name: value for name, value in brought.items() if name not in overridden}
    untrusted = find_untrusted(directory, in_use, url, environment)
    unused = [name for name in untrusted if not name.startswith("store.")]
    for name in unused:
        section, _, key = name.rpartition(".")
        del values[section][key]
    if unused:
        why = untrusted_text(directory, unused)
        warnings.append(f"{why[0].upper()}{why[1:]}. Review them with: ralph trust")
    removed = find_removed(directory, (*brought, *overridden), environment)
    if removed:
        warnings.append(f"No longer set, but trusted: {', '.join(removed)}. Review it with: ralph trust")
    return untrusted + removed


# --- environment ---------------------------------------------------------------------


def variable_name(section: str, key: str) -> str:
    """Return the environment variable of a setting, such as RALPH_EXECUTION_MAX_RETRIES."""
    return f"RALPH_{section.replace('.', '_')}_{key}".upper()


def _read_environment(section: Section, environment: Mapping[str, str], warnings: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, setting in section.settings.items():
        for name in (*setting.aliases, key):  # the current name overrides former ones
            variable = variable_name(section.name, name)
            if variable in environment and not isinstance(setting.default, dict):
                value = _parse_variable(clean(environment[variable]).strip(), setting)
                found[key] = _convert(f"environment, {variable}", f"{section.name}.{key}", setting, value)
                if name != key:
                    _warn_renamed(warnings, "environment", variable, variable_name(section.name, key))
    return found


def _parse_variable(text: str, setting: Setting) -> object:
    """Parse an environment variable: commands with shell quoting, other lists with one item per line."""
    default = setting.default
    if isinstance(default, bool):
        return _BOOLEANS.get(text.lower(), text)
    try:
        if isinstance(default, int | float):
            return int(text) if text.lstrip("+-").isdigit() else float(text)
        if setting.is_command:
            import shlex

            return shlex.split(text)
    except ValueError:
        return text
    if isinstance(default, tuple):
        return [line.strip() for line in text.splitlines() if line.strip()]
    return text


def _apply_store_variable(
    store: dict[str, Any],
    directory: Path | str,
    environment: Mapping[str, str],
    brought: dict[str, Any],
    overridden: set[str],
) -> None:
    """Apply RALPH_STORE if the project in this directory uses a database.

    The variable is often set machine-wide, and must not affect projects that use a file of their own.
    """
    url = environment.get(STORE_VARIABLE, "").strip()
    if url:
        if not store.get("project") and (project := read_working_copy(directory)[2]):
            # A branch older than the move to a database has no `store.project`.
            store["project"] = brought["store.project"] = project
        if store.get("project") or store.get("url"):
            store["url"] = url
            overridden.add("store.url")
    for key in ("url", "direct_url"):
        check_store_url(store.get(key, ""), f"store.{key}")


def check_store_url(url: str, name: str = "store.url") -> None:
    """Raise `ConfigError` unless the URL is empty, a supported database URL that reads in one way only, or a path."""
    scheme, colon, rest = url.partition(":")
    has_slashes = rest.startswith("//")
    if colon and has_slashes != (scheme in ("postgresql", "postgres", "sqlite")):
        # Only the scheme is shown, because the rest may contain a password.
        shown = f"{one_line(clean(scheme))}:{'//' if has_slashes else ''}…"
        raise ConfigError(f"{name} must be like postgresql://user@host/database or a file path, not {shown}.")
    if is_ambiguous(url):
        raise ConfigError(
            f"{name} can be read in several ways. Write it like postgresql://user@host:5432/database, with %40 for an @"
            " in a name or password, %2F for a /, %20 for a space, and names of parameters without %."
        )


def read_working_copy(directory: Path | str) -> tuple[str, str, str]:
    """Return the id, original directory and project of a working copy, or empty strings if it has none."""
    path = f"{os.fspath(directory)}/{WORKING_COPY_PATH}"
    if not os.path.isfile(path) or not is_inside(path, directory):  # noqa: PTH113
        return "", "", ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            first, _, project = file.read(MAX_CONFIG_KB * 1024).partition("\n")
    except OSError:
        return "", "", ""
    id, _, made_in = first.partition(" ")
    return id, made_in, project.strip()


def apply_flags(
    config: Config,
    *,
    agent: str | None = None,
    program: Sequence[str] = (),
    gates: Sequence[str] | None = None,
    verify: bool = True,
    review: bool = False,
    strategy: str | None = None,
) -> Config:
    """Return the configuration with command-line flags applied."""
    chosen, execution = config.agent, config.execution
    if program:
        chosen = replace(chosen, name="command", command=tuple(program))
    if agent:
        chosen = replace(chosen, name=agent)
    if gates:
        execution = replace(execution, gates=tuple(gates))
    if not verify:
        execution = replace(execution, verify=False)
    if review:
        execution = replace(execution, review=True)
    models = replace(config.models, strategy=strategy) if strategy else config.models
    return replace(config, agent=chosen, execution=execution, models=models)
