"""Configuration from `.ralph.toml`, the `memories:` block of `ralph.yml`, environment variables and flags.

Later sources override earlier ones. An unknown key is a warning, so that an older Ralph can read a newer file. An
invalid value is an error, because guessing what was meant in an unattended run costs money.
"""

from __future__ import annotations

import os

from ralph.core.agents import RUNNABLE_AGENTS
from ralph.core.errors import ConfigError
from ralph.core.files import is_inside, path_exists
from ralph.core.records import record, replace
from ralph.core.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

TOML_NAME = ".ralph.toml"
WORKING_COPY_FILE = "place"
WORKING_COPY_PATH = f".ralph/{WORKING_COPY_FILE}"
"""File with the id of the working copy, its directory and its project."""
STORE_VARIABLE = "RALPH_STORE"
"""Environment variable that overrides `store.url`."""
MAX_NUMBER = 10**12
"""Largest number accepted as a value."""
MAX_CONFIG_BYTES = 1024 * 1024
"""Maximum size of a configuration file, in bytes."""
MAX_YAML_BRACKETS = 10_000
"""Maximum number of opening brackets in a YAML file; TOML allows five times as many."""
MAX_YAML_DEPTH = 200
"""Maximum nesting depth of brackets in YAML, whose parse time is quadratic in the depth."""
MAX_TOML_DOTS = 300
"""Maximum number of dots in a line of TOML, whose parse time is quadratic in them."""
MAX_CONFIG_WARNINGS = 50
"""Maximum number of warnings about unknown keys."""
YAML_NAMES = ("ralph.yml", "ralph.yaml")


@record
class ExecutionConfig:
    """Execution, verification and retries of tasks."""

    verify: bool = True
    """Run the gates before a task counts as done."""
    max_retries: int = 3
    """Number of retries after a failed attempt; then a person has to reset the task."""
    learn: bool = True
    """Ignored; accepted for compatibility. Learning is always on."""
    gates: tuple[str, ...] = ()
    """Shell commands that must all succeed."""
    gate_seconds: float = 600.0
    stuck_after: int = 3
    """Consecutive failures after which the prompt has a stuck warning."""
    lease_seconds: float = 120.0
    review: bool = False
    """Run a read-only review session after the gates have passed."""
    review_model: str = ""
    """Model of the review session; the strongest of the ladder if empty."""


STRATEGIES = ("fixed", "cost-optimized", "escalate", "plan-then-execute")


@record
class ModelsConfig:
    """Available models and the strategy that selects one for an attempt."""

    strategy: str = ""
    """One of `STRATEGIES`. If empty: fixed when `agent.model` is set, otherwise escalate."""
    ladder: tuple[str, ...] = ("haiku", "sonnet", "opus")
    """Models ordered from weakest to strongest."""
    window: int = 20
    """Number of recent attempts used to compute success rates."""
    prices: dict[str, tuple[float, ...]] = {"haiku": (1.0, 5.0), "sonnet": (3.0, 15.0), "opus": (5.0, 25.0)}  # noqa: RUF012
    """USD per million input and output tokens, by model."""

    @property
    def is_customized(self) -> bool:
        """Return whether the ladder was configured, rather than left at its default."""
        return self.ladder != ModelsConfig().ladder


HATS = ("explorer", "planner", "creator", "critic", "editor")


@record
class HatsConfig:
    """Hats that a task passes through, and their instructions."""

    order: tuple[str, ...] = ("creator",)
    kinds: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    """Memory types included in the prompt of a hat; all types if the hat is missing."""
    instructions: dict[str, str] = {}  # noqa: RUF012
    """Instructions that replace the default ones of a hat."""


PERMISSIONS = ("all", "edit", "read")


@record
class AgentConfig:
    """The coding agent, its permissions, and the limits of a session."""

    name: str = "command"
    command: tuple[str, ...] = ()
    """Program and arguments. For a built-in agent, they replace its program and extend its arguments."""
    model: str = ""
    permissions: str = "all"
    """Permissions of a built-in agent: everything, edit files without running commands, or read only."""
    seconds: float = 1800.0
    idle_seconds: float = 600.0
    output_mb: float = 32.0
    outage_seconds: float = 10.0
    """Initial wait after a failure of the model provider, in seconds; doubles with every further failure."""
    environment: tuple[str, ...] = ()
    """Additional environment variables passed to agents and gates: names, `MYAPP_*`, or `*` for all."""


@record
class LimitsConfig:
    """Limits of a run and of a task; 0 means no limit."""

    iterations: int = 0
    minutes: float = 0.0
    cost_usd: float = 0.0
    tokens: int = 0
    task_iterations: int = 0
    """Task limits count from the last reset by a person, who has to reset a task that reached one."""
    task_minutes: float = 0.0
    task_cost_usd: float = 0.0
    task_tokens: int = 0


@record
class PromptConfig:
    """Size of prompts."""

    budget_tokens: int = 16_000


@record
class FilterConfig:
    """Filter for the memories that may be injected; empty or 0 means no filter."""

    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    recent: int = 0
    """Maximum age in days."""


@record
class MemoriesConfig:
    """Injection and synchronization of memories."""

    enabled: bool = True
    inject: str = "auto"
    budget: int = 2000
    skill_injection: bool = False
    files: bool = True
    """Sync `.agent/memories.md` and `.ralph/knowledge/` with the store."""
    meaning: bool = True
    """Use vector search if `ralph[semantic]` is installed."""
    review: bool = False
    """Stage learnings extracted from runs until a person has reviewed them."""
    shared: bool = True
    """Use memories shared by other projects in the same database."""
    filter: FilterConfig = FilterConfig()


@record
class StoreConfig:
    """Location of the store; an empty URL means a file in the project directory."""

    url: str = ""
    project: str = ""
    """Name or id of the project in the database."""
    direct_url: str = ""
    """URL that bypasses the connection pooler behind `url`, for operations that need a dedicated connection."""


@record
class Config:
    """All settings of a project."""

    store: StoreConfig = StoreConfig()
    execution: ExecutionConfig = ExecutionConfig()
    agent: AgentConfig = AgentConfig()
    limits: LimitsConfig = LimitsConfig()
    models: ModelsConfig = ModelsConfig()
    hats: HatsConfig = HatsConfig()
    prompt: PromptConfig = PromptConfig()
    memories: MemoriesConfig = MemoriesConfig()
    warnings: tuple[str, ...] = ()

    @property
    def injects_memories(self) -> bool:
        """Return whether memories are injected into prompts automatically."""
        return self.memories.enabled and self.memories.inject == "auto"


_SECTIONS: dict[str, type] = {
    "store": StoreConfig,
    "execution": ExecutionConfig,
    "agent": AgentConfig,
    "limits": LimitsConfig,
    "models": ModelsConfig,
    "hats": HatsConfig,
    "prompt": PromptConfig,
    "memories": MemoriesConfig,
}
_CHOICES = {
    "agent.permissions": PERMISSIONS,
    "memories.inject": ("auto", "manual", "none"),
    "models.strategy": ("", *STRATEGIES),
    "hats.order": HATS,
}
_UNIQUE_LISTS = ("models.ladder", "hats.order")
"""Lists that must be non-empty and free of duplicates."""
_MINIMUM = {"execution.lease_seconds": 1, "models.window": 1}
_MAXIMUM = {"execution.lease_seconds": 86_400, "memories.filter.recent": 36_500}


def load_config(directory: Path | str, environment: Mapping[str, str] = os.environ) -> Config:
    """Read the settings of the project in a directory."""
    warnings: list[str] = []
    values: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    for source, tables in _read_files(os.fspath(directory)):
        for name, table in tables.items():
            if name not in _SECTIONS:
                _warn_unknown_key(warnings, source, name, _SECTIONS)
            elif not isinstance(table, dict):
                raise ConfigError(f"{source}: {name} must be a section, not {_display(table)}.")
            else:
                values[name] |= _parse_section(source, name, table, _SECTIONS[name], warnings)
    for name, section in _SECTIONS.items():
        values[name] |= _read_environment(name, section, environment)
    _apply_store_variable(values["store"], directory, environment)
    sections = {name: section(**values[name]) for name, section in _SECTIONS.items()}
    return Config(**sections, warnings=tuple(warnings))


def _apply_store_variable(store: dict[str, Any], directory: Path | str, environment: Mapping[str, str]) -> None:
    """Apply RALPH_STORE if the project in this directory uses a database.

    The variable is often set machine-wide, and must not affect projects that use a file of their own.
    """
    url = environment.get(STORE_VARIABLE, "").strip()
    if url:
        # A branch older than the move to a database has no `store.project`.
        store["project"] = store.get("project") or read_working_copy(directory)[2]
        if store["project"] or store.get("url"):
            store["url"] = url
    check_store_url(store.get("url", ""))


def read_working_copy(directory: Path | str) -> tuple[str, str, str]:
    """Return the id, original directory and project of a working copy, or empty strings if it has none."""
    path = f"{os.fspath(directory)}/{WORKING_COPY_PATH}"
    if not os.path.isfile(path) or not is_inside(path, directory):  # noqa: PTH113
        return "", "", ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            first, _, project = file.read(MAX_CONFIG_BYTES).partition("\n")
    except OSError:
        return "", "", ""
    id, _, made_in = first.partition(" ")
    return id, made_in, project.strip()


def check_store_url(url: str) -> None:
    """Raise `ConfigError` unless the URL is empty, a supported database URL or a path."""
    scheme, colon, rest = url.partition(":")
    has_slashes = rest.startswith("//")
    if colon and has_slashes != (scheme in ("postgresql", "postgres", "sqlite")):
        # Only the scheme is shown, because the rest may contain a password.
        shown = f"{one_line(clean(scheme))}:{'//' if has_slashes else ''}…"
        raise ConfigError(f"store.url must be like postgresql://user@host/database or a file path, not {shown}.")


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
        if all(_is_blank(line) for line in text.splitlines()):
            return {}
        return parse_toml(text)
    except (ValueError, OSError) as error:
        import re

        reason = one_line(clean(str(error)))
        if duplicate := re.fullmatch(r"Cannot declare \((.+?),?\) twice \(at line (\d+), .*\)", reason):
            section = ".".join(part.strip(" '\"") for part in duplicate[1].split(","))
            raise ConfigError(
                f"{TOML_NAME}: [{section}] is defined twice (line {duplicate[2]}). Move its lines to the first one."
            ) from error
        raise ConfigError(f"Cannot read {TOML_NAME}: {reason}.") from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse untrusted TOML; raise `ValueError` with a one-line reason if it is invalid."""
    import re
    import tomllib

    # tomllib needs quadratic time for dotted keys.
    if "." in text and any(len(re.findall(r"\.[ \t]*[^\s.]", line)) > MAX_TOML_DOTS for line in text.split("\n")):
        raise ValueError(f"a line has more than {MAX_TOML_DOTS} dots")
    if text.count("[") + text.count("{") > 5 * MAX_YAML_BRACKETS:
        raise ValueError(f"it has more than {5 * MAX_YAML_BRACKETS:,} brackets")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:  # a decoding error, or an integer with too many digits
        raise ValueError(one_line(clean(str(error)))) from None


_SECTION_HEADERS = frozenset(
    (
        "[store]",
        "[execution]",
        "[agent]",
        "[gates]",
        "[limits]",
        "[models]",
        "[models.prices]",
        "[hats]",
        "[hats.kinds]",
        "[hats.instructions]",
        "[prompt]",
        "[memories]",
        "[memories.filter]",
    )
)


def _is_blank(line: str) -> bool:
    """Return whether a line is blank, a comment or a known section header."""
    content = line.split("#", 1)[0].strip()
    return not content or content in _SECTION_HEADERS


def _read_text(directory: str, name: str) -> str:
    path = f"{directory}/{name}"
    if not is_inside(path, directory):
        raise ValueError("it is a symlink that points outside the project")
    if not path_exists(path) or not os.path.isfile(path) or os.path.getsize(path) > MAX_CONFIG_BYTES:  # noqa: PTH113, PTH202
        raise ValueError("it is not a regular file of at most 1 MB")
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


def _read_yaml(directory: str, name: str) -> dict[str, Any]:
    """Return the `memories` section of a ralph.yml; the rest belongs to other programs."""
    import yaml

    try:
        text = _read_text(directory, name)
        if text.count("[") + text.count("{") > MAX_YAML_BRACKETS:
            raise ConfigError(f"Cannot read {name}: it has more than {MAX_YAML_BRACKETS:,} brackets.")
        if _max_depth(text) > MAX_YAML_DEPTH:
            raise ConfigError(f"Cannot read {name}: it is nested too deeply.")
        # Aliases can expand a few lines of YAML to gigabytes, and no setting needs them.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise ConfigError(f"Cannot read {name}: aliases (*name) are not allowed.")
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, OSError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise ConfigError(f"Cannot read {name}: {one_line(clean(str(error)))}.") from error
    if isinstance(tree, dict) and tree.get("memories") is not None:
        return {"memories": tree["memories"]}
    return {}


def _max_depth(text: str) -> int:
    """Return the maximum nesting depth of brackets."""
    import re

    depth = max_depth = 0
    for mark in re.findall(r"[\[\]{}]", text):
        depth = depth + 1 if mark in "[{" else max(0, depth - 1)
        max_depth = max(max_depth, depth)
    return max_depth


def _parse_section(
    source: str, section: str, table: Mapping[str, Any], kind: type, warnings: list[str]
) -> dict[str, Any]:
    """Return the known keys of a section, with values converted to the type of their defaults."""
    defaults = kind()
    checked: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{section}.{key}"
        if key not in kind.__slots__:  # type: ignore[attr-defined]
            _warn_unknown_key(warnings, source, name, [f"{section}.{known}" for known in kind.__slots__])  # type: ignore[attr-defined]
        elif isinstance(getattr(defaults, key), FilterConfig | dict):
            if not isinstance(value, dict):
                raise ConfigError(f"{source}: {name} must be a section, not {_display(value)}.")
            checked[key] = _parse_subsection(source, name, value, getattr(defaults, key), warnings)
        else:
            checked[key] = _convert(source, name, value, getattr(defaults, key))
    return checked


def _parse_subsection(source: str, name: str, table: dict[str, Any], default: object, warnings: list[str]) -> object:
    if isinstance(default, FilterConfig):
        return FilterConfig(**_parse_section(source, name, table, FilterConfig, warnings))
    if name == "models.prices":
        return {
            **default,  # type: ignore[dict-item]
            **{model: _parse_price(source, f"{name}.{_printable(model)}", value) for model, value in table.items()},
        }
    expected: object = "" if name == "hats.instructions" else ()
    for hat in table:
        if hat not in HATS:
            _warn_unknown_key(warnings, source, f"{name}.{hat}", [f"{name}.{known}" for known in HATS])
    return {hat: _convert(source, f"{name}.{hat}", value, expected) for hat, value in table.items() if hat in HATS}


def _parse_price(source: str, name: str, value: object) -> tuple[float, ...]:
    if (
        isinstance(value, list)
        and len(value) == 2
        and all(
            isinstance(price, int | float) and not isinstance(price, bool) and 0 <= price <= MAX_NUMBER
            for price in value
        )
    ):
        return tuple(map(float, value))
    raise ConfigError(f"{source}: {name} must be two numbers like [3.0, 15.0], not {_display(value)}.")


def _convert(source: str, name: str, value: object, default: object) -> object:
    """Convert a value to the type of its default; raise `ConfigError` if it does not fit."""
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        expected = "true or false"
    elif isinstance(default, int | float):
        numbers = int | float if isinstance(default, float) else int
        minimum, maximum = _MINIMUM.get(name, 0), _MAXIMUM.get(name, MAX_NUMBER)
        if isinstance(value, numbers) and not isinstance(value, bool) and minimum <= value <= maximum:
            return type(default)(value)
        upper = f" and at most {maximum:,}" if name in _MAXIMUM else ""
        expected = f"a {'whole ' if isinstance(default, int) else ''}number of {minimum} or more{upper}"
    elif isinstance(default, tuple):
        choices = _CHOICES.get(name, ())
        if isinstance(value, list) and all(
            isinstance(item, str) and (not choices or item in choices) for item in value
        ):
            if name in _UNIQUE_LISTS and not value:
                raise ConfigError(f"{source}: {name} must not be empty.")
            if name in _UNIQUE_LISTS and (duplicate := _first_duplicate(value)):
                raise ConfigError(f"{source}: {name} lists {_display(duplicate)} twice.")
            if name == "agent.environment":
                _check_variable_names(source, value)
            return tuple(value)
        expected = f"a list of {', '.join(choices)}" if choices else 'a list of strings like ["one", "two"]'
    else:
        choices = _CHOICES.get(name, ())
        if isinstance(value, str) and (not choices or value in choices):
            return value
        expected = " or ".join(filter(None, choices)) if choices else "a string"
    raise ConfigError(f"{source}: {name} must be {expected}, not {_display(value)}.")


def _first_duplicate(words: list[str]) -> str:
    """Return the first word that occurs twice, or an empty string."""
    seen: set[str] = set()
    return next((word for word in words if word in seen or seen.add(word)), "")  # type: ignore[func-returns-value]


def _printable(name: str) -> str:
    """Return a name from a file in a form that is safe to print."""
    return one_line(clean(name), 80)


def _check_variable_names(source: str, names: Sequence[str]) -> None:
    from ralph.core.environment import is_variable_pattern

    for name in names:
        if not is_variable_pattern(name):
            # The entry may be NAME=value, and the value may be a secret.
            shown = _display(name.partition("=")[0] + "=…" if "=" in name else name)
            raise ConfigError(
                f"{source}: agent.environment must list variable names like DATABASE_URL or MYAPP_*, not {shown}."
            )


def _display(value: object) -> str:
    try:
        return one_line(clean(repr(value)), 80)
    except ValueError:  # an integer with too many digits for repr()
        return "this number"


def _read_environment(section: str, kind: type, environment: Mapping[str, str]) -> dict[str, Any]:
    """Read settings like RALPH_EXECUTION_MAX_RETRIES=5 or RALPH_AGENT_NAME=rehearsal."""
    found: dict[str, Any] = {}
    defaults = kind()
    for key in kind.__slots__:  # type: ignore[attr-defined]
        variable = f"RALPH_{section}_{key}".upper()
        if variable not in environment or isinstance(getattr(defaults, key), FilterConfig | dict):
            continue
        text = clean(environment[variable]).strip()
        parsed = _parse_variable(text, getattr(defaults, key), is_command=key == "command")
        found[key] = _convert(f"environment, {variable}", f"{section}.{key}", parsed, getattr(defaults, key))
    return found


def _parse_variable(text: str, default: object, is_command: bool) -> object:
    """Parse an environment variable: commands with shell quoting, other lists with one item per line."""
    if isinstance(default, bool):
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(text.lower(), text)
    if isinstance(default, int | float):
        try:
            return int(text) if text.lstrip("+-").isdigit() else float(text)
        except ValueError:
            return text
    if isinstance(default, tuple) and not is_command:
        return [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(default, tuple):
        import shlex

        try:
            return shlex.split(text)
        except ValueError:
            return text
    return text


def _warn_unknown_key(warnings: list[str], source: str, name: str, known: Iterable[str]) -> None:
    """Add a warning about an unknown key, up to a maximum number of warnings."""
    if len(warnings) < MAX_CONFIG_WARNINGS:
        warnings.append(_unknown_key_message(source, _printable(name), known))
    elif len(warnings) == MAX_CONFIG_WARNINGS:
        warnings.append(f"{source}: more unknown keys were ignored.")


def _unknown_key_message(source: str, name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"{source}: ignoring unknown key {name}.{hint}"


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


def set_toml_values(text: str, section: str, settings: Mapping[str, str]) -> str:
    """Return the text of a `.ralph.toml` with string settings set in a section, and the rest unchanged."""
    import json

    lines = text.splitlines()
    heading = f"[{section}]"
    at = next((n for n, line in enumerate(lines) if line.split("#", 1)[0].strip() == heading), None)
    if at is None:
        lines += ["", heading]
        at = len(lines) - 1
    end = next((n for n in range(at + 1, len(lines)) if lines[n].lstrip().startswith("[")), len(lines))
    inside = [line for line in lines[at + 1 : end] if line.partition("=")[0].strip() not in settings]
    added = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items()]
    return "\n".join([*lines[: at + 1], *added, *inside, *lines[end:], ""])


CONFIG_TEMPLATE = """\
# Ralph settings of this project. Uncomment a line to change its default; "for example" lines have no default.

[store]
# url = "postgresql://ralph@db.example.com/ralph"  # for example: share the project with a team; see docs/postgres.md
# project = "my-project"   # for example: name of the project in that database

[execution]
# verify = true            # run the gates before a task counts as done
# max_retries = 3          # then a person has to run: ralph task reset ID
# gates = ["make test"]    # for example: shell commands that must all succeed
# gate_seconds = 600       # timeout of a gate; 0 means no limit
# lease_seconds = 120      # time until the task of a lost worker can be claimed again
# stuck_after = 3          # consecutive failures before the stuck warning
# review = false           # true: a read-only agent session checks the work after the gates
# review_model = ""        # empty: the strongest of the ladder

[agent]
# name = "command"         # or {agents}
# command = ["my-agent"]   # for example: reads the prompt on stdin, answers on stdout
# model = ""
# permissions = "all"      # of a built-in agent: "all", "edit" (no commands) or "read"
# seconds = 1800           # timeout of a session; 0 means no limit
# idle_seconds = 600       # timeout without output; 0 means no limit
# output_mb = 32           # maximum output; 0 means no limit
# outage_seconds = 10      # first wait after a provider outage; doubles every time
# environment = ["DATABASE_URL", "MYAPP_*"]  # for example: more variables for agents and gates

[models]
# strategy = ""            # fixed, cost-optimized, escalate, plan-then-execute; see docs/strategy.md
# ladder = ["haiku", "sonnet", "opus"]  # from weakest to strongest
# window = 20              # recent attempts used to compute success rates

[models.prices]            # USD per million input and output tokens
# haiku = [1.0, 5.0]
# sonnet = [3.0, 15.0]
# opus = [5.0, 25.0]

[hats]
# order = ["creator"]      # any of explorer, planner, creator, critic, editor; see docs/hats.md

[hats.kinds]               # for example: memory types in the prompt of a hat; default: all
# critic = ["pitfall", "convention", "constraint"]

[hats.instructions]        # for example: replace the default instructions of a hat
# editor = "Shorten. Change nothing that is tested."

[limits]                   # 0 means no limit
# iterations = 0           # per run
# minutes = 0
# cost_usd = 0
# tokens = 0
# task_iterations = 0      # per task; then a person has to reset the task
# task_minutes = 0
# task_cost_usd = 0
# task_tokens = 0

[prompt]
# budget_tokens = 16000

[memories]
# enabled = true
# inject = "auto"          # "auto": add memories to prompts; or "manual", "none"
# budget = 2000            # tokens per prompt, at most 2000
# skill_injection = false  # true: prompts also explain the memory commands
# files = true             # sync .agent/memories.md and .ralph/knowledge/ with the store
# meaning = true           # use vector search if ralph[semantic] is installed
# review = false           # true: extracted learnings wait for: ralph learn review
# shared = true            # use memories shared by other projects in the same database

[memories.filter]          # memories that may be injected; empty or 0 means all
# types = []
# tags = []
# recent = 0               # days
""".replace("{agents}", ", ".join(name for name in RUNNABLE_AGENTS if name != "command"))
