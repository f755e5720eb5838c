"""Configuration: `.ralph.toml`, the `memories:` block of a `ralph.yml`, the environment, flags.

Later ones win. A key nobody knows is a warning, because a newer file must not
stop an older Ralph; a value that makes no sense is an error, because guessing
what somebody meant for an unattended run costs money.
"""

from __future__ import annotations

import os

from ralph.errors import ConfigError
from ralph.files import is_inside, is_there
from ralph.records import record, replace
from ralph.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

TOML_NAME = ".ralph.toml"
PLACE = "place"
PLACE_NAME = f".ralph/{PLACE}"
"""Says which working copy this is, where it was made, and of which project."""
STORE_VARIABLE = "RALPH_STORE"
"""Names where the project is kept, over what the files say."""
DOOR_VARIABLE = "RALPH_DOOR"
"""Set by the door that only agents use, which so tells who comes in."""
LARGEST = 10**12
LARGEST_FILE = 1024 * 1024
MOST_BRACKETS = 10_000
DEEPEST = 200
"""So many brackets may be open at a time: the time to read them goes with the square of their number."""
MOST_DOTS = 300
"""In a line of TOML, for the same reason."""
MOST_WARNINGS = 50
YAML_NAMES = ("ralph.yml", "ralph.yaml")


@record
class ExecutionConfig:
    """How tasks are worked on."""

    verify: bool = True
    """Run the gates before a task counts as done."""
    max_retries: int = 3
    """Failed attempts go back to pending this many times; then the task waits for a person."""
    learn: bool = True
    """Accepted for old files; learning is always on."""
    gates: tuple[str, ...] = ()
    """Shell commands that must all succeed."""
    gate_seconds: float = 600.0
    stuck_after: int = 3
    """So many failures in a row bring the stuck warning."""
    lease_seconds: float = 120.0
    review: bool = False
    """Let a read-only agent session look at the work after the gates have passed."""
    review_model: str = ""
    """The model of that session; the strongest of the ladder when empty."""


STRATEGIES = ("fixed", "cost-optimized", "escalate", "plan-then-execute")


@record
class ModelsConfig:
    """Which models there are, and how one is chosen for an attempt."""

    strategy: str = ""
    """Empty means fixed where a model is configured for the agent, else escalate."""
    ladder: tuple[str, ...] = ("haiku", "sonnet", "opus")
    """From the weakest to the strongest."""
    window: int = 20
    """So many of the latest attempts tell how well things go."""
    prices: dict[str, tuple[float, ...]] = {"haiku": (1.0, 5.0), "sonnet": (3.0, 15.0), "opus": (5.0, 25.0)}  # noqa: RUF012
    """USD for a million tokens, in and out."""

    @property
    def is_own(self) -> bool:
        """Say whether a person named the models, so that they are those of the agent, whichever it is."""
        return self.ladder != ModelsConfig().ladder


HATS = ("explorer", "planner", "creator", "critic", "editor")


@record
class HatsConfig:
    """Which hats a task passes through, and what each of them is told."""

    order: tuple[str, ...] = ("creator",)
    kinds: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    """The kinds of memory a hat is shown; all for one that is not named."""
    instructions: dict[str, str] = {}  # noqa: RUF012
    """What a hat is told instead of what it is told by default."""


AGENTS = (
    *("command", "rehearsal", "claude", "codex", "gemini", "opencode"),
    *("acp", "claude-acp", "codex-acp", "gemini-acp", "opencode-acp"),
)
CONNECTABLE = ("claude", "codex", "gemini", "cursor", "opencode")
"""Agents that the memory can be brought into: by hooks, an MCP server, a skill."""
PERMISSIONS = ("all", "edit", "read")


@record
class AgentConfig:
    """Which agent works, what it may do, and how long, silent and loud a session may be."""

    name: str = "command"
    command: tuple[str, ...] = ()
    """The program and its arguments; for an agent known by name, instead of the usual program, with more arguments."""
    model: str = ""
    permissions: str = "all"
    """What an agent known by name may do unasked: all, edit files but run nothing, or only read."""
    seconds: float = 1800.0
    idle_seconds: float = 600.0
    output_mb: float = 32.0
    outage_seconds: float = 10.0
    """How long to wait when the service that runs its model fails; twice as long each time it fails again."""
    environment: tuple[str, ...] = ()
    """Variables that agents and gates get besides the usual ones: names, `MYAPP_*`, or `*` for all."""


@record
class LimitsConfig:
    """When a run stops by itself; 0 means no limit."""

    iterations: int = 0
    minutes: float = 0.0
    cost_usd: float = 0.0
    tokens: int = 0
    task_iterations: int = 0
    """Those of a task count since a person last reset it; then it waits for one."""
    task_minutes: float = 0.0
    task_cost_usd: float = 0.0
    task_tokens: int = 0


@record
class PromptConfig:
    """How large a prompt may be."""

    budget_tokens: int = 16_000


@record
class FilterConfig:
    """Which memories may be injected; empty or 0 means all."""

    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    recent: int = 0


@record
class MemoriesConfig:
    """Whether and how memories are put into prompts."""

    enabled: bool = True
    inject: str = "auto"
    budget: int = 2000
    skill_injection: bool = False
    files: bool = True
    """Keep `.agent/memories.md` and `.ralph/knowledge/` in step with what is remembered."""
    meaning: bool = True
    """Recall by meaning too, where `ralph[semantic]` is installed."""
    review: bool = False
    """Let what is extracted from runs wait for a person before it is used."""
    shared: bool = True
    """Take in what other projects of the same database share."""
    filter: FilterConfig = FilterConfig()


@record
class StoreConfig:
    """Where the project is kept; empty means a file of its own."""

    url: str = ""
    project: str = ""
    """Which project of the database this is, by name or id."""
    direct_url: str = ""
    """The way round a pooler, for what must stay on one connection; then `url` leads through the pooler."""


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
    def injects(self) -> bool:
        """Say whether memories go into prompts by themselves."""
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
_WORDS = {
    "agent.permissions": PERMISSIONS,
    "memories.inject": ("auto", "manual", "none"),
    "models.strategy": ("", *STRATEGIES),
    "hats.order": HATS,
}
_FILLED = ("models.ladder", "hats.order")
"""Lists that must name something, and each thing once."""
_LEAST = {"execution.lease_seconds": 1, "models.window": 1}
_MOST = {"execution.lease_seconds": 86_400, "memories.filter.recent": 36_500}


def load_config(directory: Path | str, environment: Mapping[str, str] = os.environ) -> Config:
    """Read the settings of the project in a directory."""
    warnings: list[str] = []
    values: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    for where, tables in _files(os.fspath(directory)):
        for name, table in tables.items():
            if name not in _SECTIONS:
                _warn(warnings, where, name, _SECTIONS)
            elif not isinstance(table, dict):
                raise ConfigError(f"{where}: {name} must be a section, not {_shown(table)}.")
            else:
                values[name] |= _checked(where, name, table, _SECTIONS[name], warnings)
    for name, section in _SECTIONS.items():
        values[name] |= _from_environment(name, section, environment)
    _choose_store(values["store"], directory, environment)
    sections = {name: section(**values[name]) for name, section in _SECTIONS.items()}
    return Config(**sections, warnings=tuple(warnings))


def _choose_store(store: dict[str, Any], directory: Path | str, environment: Mapping[str, str]) -> None:
    """Let RALPH_STORE say where the project is kept, if this directory is one that is kept elsewhere.

    It is often set for a whole machine, on which other projects have files of their own.
    """
    url = environment.get(STORE_VARIABLE, "").strip()
    if url:
        # The settings may be those of an older branch.
        store["project"] = store.get("project") or noted_place(directory)[2]
        if store["project"] or store.get("url"):
            store["url"] = url
    check_url(store.get("url", ""))


def noted_place(directory: Path | str) -> tuple[str, str, str]:
    """Give the name of a working copy, the directory it was made in, and its project; empty where nothing is noted."""
    path = f"{os.fspath(directory)}/{PLACE_NAME}"
    if not os.path.isfile(path) or not is_inside(path, directory):  # noqa: PTH113
        return "", "", ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            first, _, project = file.read(LARGEST_FILE).partition("\n")
    except OSError:
        return "", "", ""
    id, _, where = first.partition(" ")
    return id, where, project.strip()


def check_url(url: str) -> None:
    """Refuse what is neither a URL of a database we know nor a path."""
    kind, mark, rest = url.partition(":")
    is_known = kind in ("postgresql", "postgres", "sqlite")
    if mark and (rest.startswith("//") != is_known):
        raise ConfigError(
            f"store.url must be like postgresql://user@host/database or the path of a file: {one_line(clean(kind))}:"
            f"{'// is' if rest.startswith('//') else ' without // is'} neither."
        )


def _files(directory: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    if os.path.lexists(f"{directory}/{TOML_NAME}"):
        found.append((TOML_NAME, _read_toml(directory)))
    for name in YAML_NAMES:
        if is_there(f"{directory}/{name}"):
            found.append((name, _read_yaml(directory, name)))
    return found


def _read_toml(directory: str) -> dict[str, Any]:
    try:
        text = _text(directory, TOML_NAME)
        # The reader takes 10 ms to load. The file as `ralph init` writes it sets nothing.
        if all(_sets_nothing(line) for line in text.splitlines()):
            return {}
        return toml_in(text)
    except (ValueError, OSError) as error:
        import re

        said = one_line(clean(str(error)))
        if twice := re.fullmatch(r"Cannot declare \((.+?),?\) twice \(at line (\d+), .*\)", said):
            section = ".".join(part.strip(" '\"") for part in twice[1].split(","))
            raise ConfigError(
                f"{TOML_NAME}: [{section}] is there twice (line {twice[2]}): put your lines under the first one."
            ) from error
        raise ConfigError(f"{TOML_NAME} cannot be read: {said}.") from error


def toml_in(text: str) -> dict[str, Any]:
    """Give what a TOML text says; a `ValueError` says in a line why it cannot be read, whatever the text."""
    import re
    import tomllib

    # The time that a name with dots takes is squared.
    if "." in text and any(len(re.findall(r"\.[ \t]*[^\s.]", line)) > MOST_DOTS for line in text.split("\n")):
        raise ValueError(f"a line in it has more than {MOST_DOTS} dots")
    if text.count("[") + text.count("{") > 5 * MOST_BRACKETS:
        raise ValueError(f"it has more than {5 * MOST_BRACKETS:,} brackets")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:  # its own, and that of Python for a number of too many digits
        raise ValueError(one_line(clean(str(error)))) from None


_HEADINGS = frozenset(
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


def _sets_nothing(line: str) -> bool:
    """Say whether a line is empty, a comment, or the heading of a table of ours."""
    bare = line.split("#", 1)[0].strip()
    return not bare or bare in _HEADINGS


def _text(directory: str, name: str) -> str:
    path = f"{directory}/{name}"
    if not is_inside(path, directory):
        raise ValueError("it is a link that leads out of the project")
    if not is_there(path) or not os.path.isfile(path) or os.path.getsize(path) > LARGEST_FILE:  # noqa: PTH113, PTH202
        raise ValueError("it is no regular file of at most 1 MB")
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


def _read_yaml(directory: str, name: str) -> dict[str, Any]:
    """Give the part of a ralph.yml that is about memory; the rest belongs to other programs."""
    import yaml

    try:
        text = _text(directory, name)
        if text.count("[") + text.count("{") > MOST_BRACKETS:
            raise ConfigError(f"{name} cannot be read: it has more than {MOST_BRACKETS:,} brackets.")
        if _deepest(text) > DEEPEST:
            raise ConfigError(f"{name} cannot be read: it is nested too deep.")
        # Aliases are how a few lines of YAML become gigabytes, and no settings need them.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise ConfigError(f"{name} cannot be read: aliases (*name) are not allowed.")
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, OSError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise ConfigError(f"{name} cannot be read: {one_line(clean(str(error)))}.") from error
    if isinstance(tree, dict) and tree.get("memories") is not None:
        return {"memories": tree["memories"]}
    return {}


def _deepest(text: str) -> int:
    """Give how many brackets are open at a time, at most."""
    import re

    depth = deepest = 0
    for mark in re.findall(r"[\[\]{}]", text):
        depth = depth + 1 if mark in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _checked(where: str, section: str, table: Mapping[str, Any], kind: type, warnings: list[str]) -> dict[str, Any]:
    """Give the known keys of a section with their values in the right type."""
    defaults = kind()
    checked: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{section}.{key}"
        if key not in kind.__slots__:  # type: ignore[attr-defined]
            _warn(warnings, where, name, [f"{section}.{known}" for known in kind.__slots__])  # type: ignore[attr-defined]
        elif isinstance(getattr(defaults, key), FilterConfig | dict):
            if not isinstance(value, dict):
                raise ConfigError(f"{where}: {name} must be a section, not {_shown(value)}.")
            checked[key] = _inner(where, name, value, getattr(defaults, key), warnings)
        else:
            checked[key] = _value(where, name, value, getattr(defaults, key))
    return checked


def _inner(where: str, name: str, table: dict[str, Any], default: object, warnings: list[str]) -> object:
    """Give a section inside of a section."""
    if isinstance(default, FilterConfig):
        return FilterConfig(**_checked(where, name, table, FilterConfig, warnings))
    if name == "models.prices":
        return {**default, **{model: _price(where, f"{name}.{_word(model)}", value) for model, value in table.items()}}  # type: ignore[dict-item]
    wanted: object = "" if name == "hats.instructions" else ()
    for hat in table:
        if hat not in HATS:
            _warn(warnings, where, f"{name}.{hat}", [f"{name}.{known}" for known in HATS])
    return {hat: _value(where, f"{name}.{hat}", value, wanted) for hat, value in table.items() if hat in HATS}


def _price(where: str, name: str, value: object) -> tuple[float, ...]:
    if (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one <= LARGEST for one in value)
    ):
        return tuple(map(float, value))
    raise ConfigError(f"{where}: {name} must be two numbers like [3.0, 15.0], not {_shown(value)}.")


def _value(where: str, name: str, value: object, default: object) -> object:
    """Give a value in the type of its default, or say what it should have been."""
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        wanted = "true or false"
    elif isinstance(default, int | float):
        numbers = int | float if isinstance(default, float) else int
        least, most = _LEAST.get(name, 0), _MOST.get(name, LARGEST)
        if isinstance(value, numbers) and not isinstance(value, bool) and least <= value <= most:
            return type(default)(value)
        upper = f" and at most {most:,}" if name in _MOST else ""
        wanted = f"a {'whole ' if isinstance(default, int) else ''}number of {least} or more{upper}"
    elif isinstance(default, tuple):
        known = _WORDS.get(name, ())
        if isinstance(value, list) and all(isinstance(item, str) and (not known or item in known) for item in value):
            if name in _FILLED and not value:
                raise ConfigError(f"{where}: {name} must name at least one.")
            if name in _FILLED and (twice := _first_twice(value)):
                raise ConfigError(f"{where}: {name} names {_shown(twice)} twice.")
            if name == "agent.environment":
                _check_names(where, value)
            return tuple(value)
        wanted = f"a list of {', '.join(known)}" if known else 'a list of texts like ["one", "two"]'
    else:
        words = _WORDS.get(name, ())
        if isinstance(value, str) and (not words or value in words):
            return value
        wanted = " or ".join(filter(None, words)) if words else "a text"
    raise ConfigError(f"{where}: {name} must be {wanted}, not {_shown(value)}.")


def _first_twice(words: list[str]) -> str:
    """Give the first word that was there before; nothing when there is none."""
    seen: set[str] = set()
    return next((word for word in words if word in seen or seen.add(word)), "")  # type: ignore[func-returns-value]


def _word(name: str) -> str:
    """Give a name as a file has it, fit for a message."""
    return one_line(clean(name), 80)


def _check_names(where: str, names: Sequence[str]) -> None:
    from ralph.environment import is_name

    for name in names:
        if not is_name(name):
            known = "names of variables like DATABASE_URL or MYAPP_*, without their values"
            # It may be one with its value, which is for nobody to read.
            said = _shown(name.partition("=")[0] + "=…" if "=" in name else name)
            raise ConfigError(f"{where}: agent.environment must be {known}, not {said}.")


def _shown(value: object) -> str:
    try:
        return one_line(clean(repr(value)), 80)
    except ValueError:  # a number of thousands of digits
        return "that"


def _from_environment(section: str, kind: type, environment: Mapping[str, str]) -> dict[str, Any]:
    """Read settings like RALPH_EXECUTION_MAX_RETRIES=5 or RALPH_AGENT_NAME=rehearsal."""
    found: dict[str, Any] = {}
    defaults = kind()
    for key in kind.__slots__:  # type: ignore[attr-defined]
        variable = f"RALPH_{section}_{key}".upper()
        if variable not in environment or isinstance(getattr(defaults, key), FilterConfig | dict):
            continue
        text = clean(environment[variable]).strip()
        parsed = _parsed(text, getattr(defaults, key), is_command=key == "command")
        found[key] = _value(f"environment, {variable}", f"{section}.{key}", parsed, getattr(defaults, key))
    return found


def _parsed(text: str, default: object, is_command: bool) -> object:
    """Read a variable: a command in words as a shell has them, other lists a line each."""
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


def _warn(warnings: list[str], where: str, name: str, known: Iterable[str]) -> None:
    """Say that a key is unknown; of very many, that there are more."""
    if len(warnings) < MOST_WARNINGS:
        warnings.append(_unknown(where, _word(name), known))
    elif len(warnings) == MOST_WARNINGS:
        warnings.append(f"{where}: there are more unknown keys, which are ignored too.")


def _unknown(where: str, name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"{where}: unknown key {name} is ignored.{hint}"


def with_flags(
    config: Config,
    *,
    agent: str | None = None,
    program: Sequence[str] = (),
    gates: Sequence[str] | None = None,
    verify: bool = True,
    review: bool = False,
    strategy: str | None = None,
) -> Config:
    """Give the settings with what a command line says over them."""
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


def with_settings(text: str, section: str, settings: Mapping[str, str]) -> str:
    """Give the text of a `.ralph.toml` with some texts set in a section; what else it says stays as it is."""
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


TEMPLATE = """\
# Settings of Ralph for this project. Remove a # to change something; "for example" lines have no default.

[store]
# url = "postgresql://ralph@db.example.com/ralph"  # for example: share the project with a team; docs/postgres.md
# project = "my-project"   # for example: which project of that database this is

[execution]
# verify = true            # run the gates before a task counts as done
# max_retries = 3          # then the task waits for a person: ralph task reset ID
# gates = ["make test"]    # for example: shell commands that must all succeed
# gate_seconds = 600       # longest gate; 0 means no limit
# lease_seconds = 120      # how long a vanished worker on another machine holds its task
# stuck_after = 3          # failures in a row that bring the stuck warning
# review = false           # true: a read-only agent session checks the work after the gates
# review_model = ""        # the strongest of the ladder when empty

[agent]
# name = "command"         # or claude, codex, gemini, opencode, acp, claude-acp, gemini-acp, ...; docs/agents.md
# command = ["my-agent"]   # for example: gets the prompt on stdin and answers on stdout
# model = ""
# permissions = "all"      # what a known agent may do unasked: "all", "edit" (run no commands) or "read"
# seconds = 1800           # longest session; 0 means no limit
# idle_seconds = 600       # longest silence; 0 means no limit
# output_mb = 32           # most output; 0 means no limit
# outage_seconds = 10      # wait when the model's service fails, then twice as long, and so on
# environment = ["DATABASE_URL", "MYAPP_*"]  # for example: variables that agents and gates get besides the usual ones

[models]
# strategy = ""            # fixed, cost-optimized, escalate, plan-then-execute; docs/strategy.md
# ladder = ["haiku", "sonnet", "opus"]  # from the weakest to the strongest
# window = 20              # the latest attempts that tell how well things go

[models.prices]            # USD for a million tokens, in and out
# haiku = [1.0, 5.0]
# sonnet = [3.0, 15.0]
# opus = [5.0, 25.0]

[hats]
# order = ["creator"]      # the hats a task passes through: explorer, planner, creator, critic, editor; docs/hats.md

[hats.kinds]               # for example: the kinds of memory a hat is shown; all if it is not named
# critic = ["pitfall", "convention", "constraint"]

[hats.instructions]        # for example: what a hat is told instead of what it is told by default
# editor = "Shorten. Change nothing that is tested."

[limits]                   # 0 means none
# iterations = 0           # of one run
# minutes = 0
# cost_usd = 0
# tokens = 0
# task_iterations = 0      # of one task; then it waits for a person
# task_minutes = 0
# task_cost_usd = 0
# task_tokens = 0

[prompt]
# budget_tokens = 16000

[memories]
# enabled = true
# inject = "auto"          # or "manual", "none": whether memories go into prompts by themselves
# budget = 2000            # tokens of a prompt; never more than 2000
# skill_injection = false  # true: prompts also say how to use the memory by command
# files = true             # keep .agent/memories.md and .ralph/knowledge/ in step with what is remembered
# meaning = true           # recall by meaning too, where ralph[semantic] is installed
# review = false           # true: what is extracted from runs waits for: ralph learn review
# shared = true            # take in what other projects of the same database share

[memories.filter]          # which memories may be injected; empty or 0 means all
# types = []
# tags = []
# recent = 0               # days
"""
