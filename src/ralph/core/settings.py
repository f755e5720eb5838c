"""The settings of a project: one entry each, from which loading, the template of `.ralph.toml` and the docs derive.

To add a setting, add a field with `setting(...)` to its section. Its type is that of the default, and its environment
variable is `RALPH_SECTION_NAME`. To rename one, rename the field, for which mypy finds the uses, and keep the old name
in `aliases=("old_name",)`: files and variables with the old name still work, with a warning. One that decides what
runs, what reaches a program or how work is verified has `needs_trust=True`.
"""

from __future__ import annotations

from ralph.core.agents import FALLBACK_AGENTS, RUNNABLE_AGENTS
from ralph.core.memory_types import MEMORY_TYPES
from ralph.core.records.base import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, dataclass_transform

    T = TypeVar("T")

MAX_NUMBER = 10**12
"""Largest number accepted as a value."""


@record
class Setting:
    """One setting: its default, its allowed values and its description."""

    default: Any
    comment: str
    """One line for the template and the docs."""
    example: str = ""
    """Lines of the template that show a value, for a setting without a default worth showing."""
    choices: tuple[str, ...] = ()
    """Allowed values of a string or of the items of a list."""
    minimum: float = 0
    maximum: float = MAX_NUMBER
    is_unique: bool = False
    """Whether a list must be non-empty and free of duplicates."""
    is_command: bool = False
    """Whether a list is a command line, which an environment variable gives with shell quoting."""
    is_listed: bool = True
    """Whether the template and the docs mention it."""
    keys: tuple[str, ...] = ()
    """Allowed keys of a table; empty for any."""
    item: Any = None
    """Value whose type the items of a table must have."""
    check: Callable[[Any], str] | None = None
    """Further check of a value: returns what it must be, or an empty string if it is valid."""
    aliases: tuple[str, ...] = ()
    """Former names, which files and environment variables may still use."""
    needs_trust: bool = False
    """Whether a value from a file counts only after a person has accepted it: it decides which program runs, with what
    words or variables, how work is verified, or which database is opened."""


@record
class Section:
    """A section of `.ralph.toml`."""

    name: str
    comment: str
    build: Callable[..., Any]
    settings: dict[str, Setting]

    @property
    def aliases(self) -> dict[str, str]:
        """Return the current names of settings by their former ones."""
        return {alias: key for key, setting in self.settings.items() for alias in setting.aliases}


SECTIONS: dict[str, Section] = {}
"""All sections in the order of the template."""
PERSONAL_SECTIONS: dict[str, Section] = {}
"""Sections of a person's own file, which count in all their projects and never in a file of a project."""

if TYPE_CHECKING:

    def setting(default: T, comment: str, **options: Any) -> T:
        """Declare a setting as the default of a field."""
        return default

    @dataclass_transform(frozen_default=True, kw_only_default=True)
    def section(name: str, comment: str = "", *, is_personal: bool = False) -> Callable[[type[T]], type[T]]:
        """Declare a record whose fields are settings."""
        return lambda cls: cls

else:

    def setting(default, comment, **options):
        """Declare a setting as the default of a field."""
        return Setting(default=default, comment=comment, **options)

    def section(name, comment="", *, is_personal=False):
        """Declare a record whose fields are settings."""

        def register(cls):
            settings = {}
            for key in cls.__annotations__:
                if isinstance(value := cls.__dict__[key], Setting):
                    settings[key] = value
                    setattr(cls, key, value.default)
            cls = record(cls)
            sections = PERSONAL_SECTIONS if is_personal else SECTIONS
            sections[name] = Section(name=name, comment=comment, build=cls, settings=settings)
            return cls

        return register


COMMIT_MODES = ("auto", "always", "never")
FAILURE_MODES = ("keep", "reset")
STRATEGIES = ("fixed", "cost-optimized", "escalate", "plan-then-execute")
HATS = ("explorer", "planner", "creator", "critic", "editor")
PERMISSIONS = ("all", "edit", "read")
SANDBOXES = ("bubblewrap",)


def _expected_variables(names: list[str]) -> str:
    from ralph.core.environment import is_variable_pattern

    return "" if all(map(is_variable_pattern, names)) else "variable names like DATABASE_URL or MYAPP_*"


def _expected_paths(paths: list[str]) -> str:
    is_inside = all(path and not path.startswith(("/", "~")) and ".." not in path.split("/") for path in paths)
    return "" if is_inside else "paths inside the project, such as node_modules"


@section("store")
class StoreConfig:
    """Location of the store; an empty URL means a file in the project directory."""

    url: str = setting(
        "",
        "share the project with a team; see docs/postgres.md",
        example='url = "postgresql://ralph@db.example.com/ralph"',
        needs_trust=True,
    )
    project: str = setting(
        "", "name or id of the project in that database", example='project = "my-project"', needs_trust=True
    )
    direct_url: str = setting(
        "",
        "the same database without its connection pooler",
        example='direct_url = "postgresql://ralph@db:5432/ralph"',
        needs_trust=True,
    )


@section("execution")
class ExecutionConfig:
    """Execution, verification and retries of tasks."""

    verify: bool = setting(True, "run the gates before a task counts as done", needs_trust=True)
    max_retries: int = setting(3, "then a person has to run: ralph task reset ID")
    learn: bool = setting(True, "ignored; learning is always on", is_listed=False)
    gates: tuple[str, ...] = setting(
        (), "shell commands that must all succeed", example='gates = ["make test"]', needs_trust=True
    )
    protect: tuple[str, ...] = setting(
        ("default",),
        'files that decide what is done; "!glob" for an exception; see docs/gates.md',
        example='protect = ["default", "golden/**", "!docs/Makefile"]',
        needs_trust=True,
    )
    gate_seconds: float = setting(600.0, "timeout of a gate; 0 means no limit")
    reuse: tuple[str, ...] = setting(
        ("node_modules", ".venv", "venv"),
        "ignored directories that gates find in a clean checkout",
        check=_expected_paths,
        needs_trust=True,
    )
    lease_seconds: float = setting(
        120.0, "time until the task of a lost worker can be claimed again", minimum=1, maximum=86_400
    )
    stuck_after: int = setting(3, "consecutive failures before the stuck warning")
    review: bool = setting(False, "true: a read-only agent session checks the work after the gates", needs_trust=True)
    review_model: str = setting("", "empty: the strongest of the ladder", needs_trust=True)
    commit: str = setting(
        "auto",
        'commit each done task: "auto" unless tracked files have changes at the start, "always", "never"',
        choices=COMMIT_MODES,
    )
    on_failure: str = setting(
        "keep", 'failed work: "keep" it for the next attempt, or "reset" the tree', choices=FAILURE_MODES
    )


@section("agent")
class AgentConfig:
    """The coding agent, its permissions, and the limits of a session."""

    name: str = setting(
        "command", "or " + ", ".join(name for name in RUNNABLE_AGENTS if name != "command"), needs_trust=True
    )
    command: tuple[str, ...] = setting(
        (),
        "reads the prompt on stdin, answers on stdout",
        example='command = ["my-agent"]',
        is_command=True,
        needs_trust=True,
    )
    model: str = setting("", "empty: chosen by the strategy, or by the agent", needs_trust=True)
    permissions: str = setting(
        "all", 'of a built-in agent: "all", "edit" (no commands) or "read"', choices=PERMISSIONS, needs_trust=True
    )
    seconds: float = setting(1800.0, "timeout of a session; 0 means no limit")
    idle_seconds: float = setting(600.0, "timeout without output; 0 means no limit")
    output_mb: float = setting(32.0, "maximum output; 0 means no limit")
    memory_mb: int = setting(0, "maximum memory of all its processes together; 0 means no limit", needs_trust=True)
    processes: int = setting(0, "maximum number of processes at a time; 0 means no limit", needs_trust=True)
    max_files_changed: int = setting(
        0, "a session that changes more needs a person; 0 means no limit", needs_trust=True
    )
    fallback: tuple[str, ...] = setting(
        (),
        "agents that go on, with their own models, while this one waits for its usage limit",
        example='fallback = ["codex", "gemini"]',
        choices=FALLBACK_AGENTS,
        needs_trust=True,
    )
    outage_seconds: float = setting(10.0, "first wait after a provider outage; doubles every time")
    environment: tuple[str, ...] = setting(
        (),
        'more variables for agents and gates; "*" for all',
        example='environment = ["DATABASE_URL", "MYAPP_*"]',
        needs_trust=True,
        check=_expected_variables,
    )
    sandbox: str = setting(
        "", '"bubblewrap" confines agents and gates; see docs/agents.md', choices=("", *SANDBOXES), needs_trust=True
    )
    sandbox_network: bool = setting(True, "false: no network in the sandbox, not even for the model", needs_trust=True)
    sandbox_read: tuple[str, ...] = setting(
        (),
        "more paths it can read, relative to the home directory",
        example='sandbox_read = ["~/.m2", "/srv/data"]',
        needs_trust=True,
    )
    sandbox_write: tuple[str, ...] = setting(
        (),
        "more paths it can write, relative to the home directory",
        example='sandbox_write = ["~/.gradle"]',
        needs_trust=True,
    )


@section("models")
class ModelsConfig:
    """Available models and the strategy that selects one for an attempt."""

    strategy: str = setting(
        "", "fixed, cost-optimized, escalate, plan-then-execute; see docs/strategy.md", choices=("", *STRATEGIES)
    )
    ladder: tuple[str, ...] = setting(
        ("haiku", "sonnet", "opus"), "from weakest to strongest", is_unique=True, needs_trust=True
    )
    window: int = setting(20, "recent attempts used to compute success rates", minimum=1)
    prices: dict[str, tuple[float, ...]] = setting(
        {"haiku": (1.0, 5.0), "sonnet": (3.0, 15.0), "opus": (5.0, 25.0)},
        "USD per million input and output tokens",
        item=(0.0, 0.0),
    )

    @property
    def is_customized(self) -> bool:
        """Return whether the ladder was configured, rather than left at its default."""
        return self.ladder != ModelsConfig().ladder


@section("hats")
class HatsConfig:
    """Hats that a task passes through, and their instructions."""

    order: tuple[str, ...] = setting(
        ("creator",), f"any of {', '.join(HATS)}; see docs/hats.md", choices=HATS, is_unique=True
    )
    kinds: dict[str, tuple[str, ...]] = setting(
        {},
        "memory types in the prompt of a hat; default: all",
        example='critic = ["pitfall", "convention", "constraint"]',
        choices=tuple(MEMORY_TYPES),
        keys=HATS,
        item=(),
    )
    instructions: dict[str, str] = setting(
        {},
        "replace the default instructions of a hat",
        example='editor = "Shorten. Change nothing that is tested."',
        needs_trust=True,
        keys=HATS,
        item="",
    )


@section("limits", "0 means no limit; a person has to reset a task that reached one")
class LimitsConfig:
    """Limits of a run and of a task; 0 means no limit."""

    iterations: int = setting(0, "per run")
    minutes: float = setting(0.0, "per run")
    cost_usd: float = setting(0.0, "per run")
    tokens: int = setting(0, "per run")
    task_iterations: int = setting(0, "per task since its last reset")
    task_minutes: float = setting(0.0, "per task since its last reset")
    task_cost_usd: float = setting(0.0, "per task since its last reset")
    task_tokens: int = setting(0, "per task since its last reset")


@section("prompt")
class PromptConfig:
    """Size of prompts."""

    budget_tokens: int = setting(16_000, "maximum size of a prompt")


@section("memories.filter", "memories that may be injected; empty or 0 means all")
class FilterConfig:
    """Filter for the memories that may be injected; empty or 0 means no filter."""

    types: tuple[str, ...] = setting((), "memory types", choices=tuple(MEMORY_TYPES))
    tags: tuple[str, ...] = setting((), "at least one of these tags")
    recent: int = setting(0, "maximum age in days", maximum=36_500)


@section("memories")
class MemoriesConfig:
    """Injection and synchronization of memories."""

    enabled: bool = setting(True, "false: prompts have neither memories nor memory commands")
    inject: str = setting(
        "auto", '"auto": add memories to prompts; or "manual", "none"', choices=("auto", "manual", "none")
    )
    budget: int = setting(2000, "tokens per prompt, at most 2000")
    rules: int = setting(500, "tokens of standing rules per prompt; 0 for none")
    skill_injection: bool = setting(False, "true: prompts also explain the memory commands")
    files: bool = setting(True, "sync .agent/memories.md and .ralph/knowledge/ with the store")
    meaning: bool = setting(True, "use vector search if the extra semantic is installed")
    meaning_in_hooks: bool = setting(
        False, "true: load the model before each prompt of a session (0.15 s) if the MCP server has not"
    )
    review: bool = setting(False, "true: extracted learnings wait for: ralph learn review")
    shared: bool = setting(True, "use memories shared by other projects in the same database")
    filter: FilterConfig = FilterConfig()


@section("episodes", "past sessions, attempts and commits, word for word; see docs/episodes.md")
class EpisodesConfig:
    """Capture, size and injection of episodes."""

    capture: bool = setting(True, "keep what people and agents say in sessions and attempts")
    budget: int = setting(1000, "tokens of past work per prompt; 0 for none")
    max_mb: float = setting(200.0, "size of their texts; beyond it, the least useful are deleted")

    @property
    def max_bytes(self) -> int:
        """Return the maximum size of all texts, in bytes."""
        return int(self.max_mb * 1_000_000)


@section("learning", "what your agent may propose to learn when a run ends; see docs/reflection.md")
class LearningConfig:
    """Reflection by an agent at the end of a run."""

    reflect: str = setting(
        "",
        "model that looks back at the work when a run ends; empty: none does",
        example='reflect = "haiku"',
        needs_trust=True,
    )
    reflect_cents: float = setting(10.0, "what that may cost per day, in US cents", needs_trust=True)


def _expected_webhook(url: str) -> str:
    return _expected_url(url, "https://ntfy.sh/my-topic")


def _expected_endpoint(url: str) -> str:
    return _expected_url(url, "http://localhost:4318")


def _expected_url(url: str, example: str) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("https", "http") and bool(parts.hostname) and not parts.username
        is_valid = is_valid and (parts.port is None or parts.port > 0) and url.isascii() and url.isprintable()
    except ValueError:
        is_valid = False
    return "" if not url or (is_valid and " " not in url) else f"a URL like {example}"


@section("telemetry", "traces and metrics of runs for OpenTelemetry; see docs/telemetry.md")
class TelemetryConfig:
    """Where telemetry goes."""

    endpoint: str = setting(
        "",
        "collector for OTLP over HTTP, with the otel extra; empty: none",
        example='endpoint = "http://localhost:4318"',
        check=_expected_endpoint,
        needs_trust=True,
    )


NOTIFY_EVENTS = ("ended", "blocked", "login", "limit", "budget")
"""What a person can be notified of: a run ended; a task is blocked or asks; an agent needs a login; the run waits for a
usage limit; 80 % of a limit of the run is used."""
WEBHOOK_FORMATS = ("slack", "discord", "ntfy", "telegram", "json")


@section("notify", "how you are told about runs; see docs/running.md", is_personal=True)
class NotifyConfig:
    """Where notifications go, and which."""

    on: tuple[str, ...] = setting(NOTIFY_EVENTS, "events to be notified of", choices=NOTIFY_EVENTS)
    command: tuple[str, ...] = setting(
        (),
        "program that gets the text on stdin, the title in RALPH_NOTIFICATION_TITLE",
        example='command = ["mail", "-s", "Ralph", "me@example.com"]',
        is_command=True,
    )
    webhook: str = setting(
        "",
        "URL of Slack, Discord, ntfy, Telegram (with ?chat_id=…) or your own",
        example='webhook = "https://ntfy.sh/my-topic"',
        check=_expected_webhook,
    )
    format: str = setting("", "shape of its message; empty: by the host", choices=("", *WEBHOOK_FORMATS))
    token: str = setting("", "bearer token of the webhook, if it needs one")
    desktop: bool = setting(False, "true: notifications of the desktop")
    apprise: tuple[str, ...] = setting(
        (), "URLs of apprise, with the notify extra", example='apprise = ["mailto://user:password@example.com"]'
    )

    @property
    def has_target(self) -> bool:
        """Whether notifications go anywhere."""
        return bool(self.command or self.webhook or self.desktop or self.apprise)


SECTIONS["memories.filter"] = SECTIONS.pop("memories.filter")  # its subsection follows it in the template


@record
class Config:
    """All settings of a project."""

    store: StoreConfig = StoreConfig()
    execution: ExecutionConfig = ExecutionConfig()
    agent: AgentConfig = AgentConfig()
    models: ModelsConfig = ModelsConfig()
    hats: HatsConfig = HatsConfig()
    limits: LimitsConfig = LimitsConfig()
    prompt: PromptConfig = PromptConfig()
    memories: MemoriesConfig = MemoriesConfig()
    episodes: EpisodesConfig = EpisodesConfig()
    learning: LearningConfig = LearningConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    warnings: tuple[str, ...] = ()
    brought: dict[str, Any] = {}  # noqa: RUF012 -- never changed
    """Values from files that need trust, by name, whether or not they are trusted."""
    untrusted: tuple[str, ...] = ()
    """Names of settings whose values nobody has accepted, or whose accepted values are gone.

    Defaults count instead, and a store elsewhere is not opened.
    """

    @property
    def is_store_trusted(self) -> bool:
        """Return whether the database may be opened."""
        return not any(name.startswith("store.") and name in self.brought for name in self.untrusted)

    @property
    def injects_memories(self) -> bool:
        """Return whether memories are injected into prompts automatically."""
        return self.memories.enabled and self.memories.inject == "auto"

    @property
    def injects_episodes(self) -> bool:
        """Return whether past work is injected into prompts automatically."""
        return self.injects_memories and self.episodes.budget > 0
