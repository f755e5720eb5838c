"""Registry of coding agents.

To add an agent, add an entry here, a module with a `build` function under `ralph.agents`, and its test. If
`ralph setup` can connect it to the memory, set `is_connectable` and add the files to `ralph.integrations.setup.agents`.
Command-line choices, environment variables, settings comments and the table in docs/agents.md follow from the entry.
"""

from __future__ import annotations

from ralph.core.records import record

_ANTHROPIC = (
    *("ANTHROPIC_*", "CLAUDE*", "AWS_BEARER_TOKEN_BEDROCK", "API_TIMEOUT_MS", "IS_SANDBOX", "DISABLE_*"),
    *("MAX_THINKING_TOKENS", "MAX_MCP_OUTPUT_TOKENS", "MCP_TIMEOUT", "MCP_TOOL_TIMEOUT", "ENABLE_TOOL_SEARCH"),
    *("BASH_DEFAULT_TIMEOUT_MS", "BASH_MAX_TIMEOUT_MS", "BASH_MAX_OUTPUT_LENGTH", "USE_BUILTIN_RIPGREP"),
)
_OPENAI = ("OPENAI_*", "CODEX_*", "AZURE_OPENAI_*")
_GOOGLE = (
    *("GEMINI_*", "GOOGLE_API_KEY", "GOOGLE_GEMINI_*", "GOOGLE_GENAI_*", "GOOGLE_GENERATIVE_AI_*"),
    *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT_ID", "GOOGLE_CLOUD_LOCATION"),
)
_ALL_PROVIDERS = (
    *(*_ANTHROPIC, *_OPENAI, *_GOOGLE),
    *("OPENCODE_*", "OPENROUTER_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY"),
    *("CEREBRAS_API_KEY", "TOGETHER_API_KEY", "FIREWORKS_API_KEY", "MOONSHOT_API_KEY", "ZHIPU_API_KEY"),
    *("DASHSCOPE_API_KEY", "COHERE_API_KEY", "PERPLEXITY_API_KEY", "NVIDIA_API_KEY", "HF_TOKEN", "OLLAMA_*"),
)
"""Variables of all model providers, for agents that can use any of them."""

_CLAUDE_PATHS = (".claude", ".claude.json")
_CLAUDE_SETTINGS = (*(f".claude/{name}" for name in ("settings.json", "settings.local.json", "CLAUDE.md")),)
_CODEX_PATHS, _CODEX_SETTINGS = (".codex",), (".codex/config.toml", ".codex/hooks.json", ".codex/AGENTS.md")
_GEMINI_PATHS, _GEMINI_SETTINGS = (".gemini",), (".gemini/settings.json", ".gemini/GEMINI.md")
_OPENCODE_PATHS = (".local/share/opencode", ".local/state/opencode")
_OPENCODE_SETTINGS = (".config/opencode",)
_ALL_PATHS = (*_CLAUDE_PATHS, *_CODEX_PATHS, *_GEMINI_PATHS, *_OPENCODE_PATHS)
_ALL_SETTINGS = (*_CLAUDE_SETTINGS, *_CODEX_SETTINGS, *_GEMINI_SETTINGS, *_OPENCODE_SETTINGS)
_ALL_VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME")


@record
class AgentSpec:
    """What Ralph knows about one coding agent."""

    name: str
    description: str
    module: str = ""
    """Module under `ralph.agents` whose `build` function makes the agent; empty if it can only be connected."""
    env_keys: tuple[str, ...] = ()
    """Variables it logs in to its model with: names, or patterns like `OPENAI_*`."""
    reports_cost: bool = False
    reports_tokens: bool = False
    knows_default_models: bool = False
    """Whether it accepts the model names of Ralph's default ladder."""
    login_paths: tuple[str, ...] = ()
    """Where it keeps its login and its sessions, relative to the home directory: writable in a sandbox."""
    settings_paths: tuple[str, ...] = ()
    """Of these, what says which programs it runs: only readable in a sandbox."""
    login_variables: tuple[str, ...] = ()
    """Variables that name another place for them."""
    login_hint: str = "Log in with the agent's own command."
    """What to do when it is not logged in."""
    guides: tuple[str, ...] = ()
    """Files of a project that it certainly reads at the start of every session."""
    is_connectable: bool = False
    """Whether `ralph setup` can connect it to the memory through hooks, an MCP server or a skill."""


AGENTS: dict[str, AgentSpec] = {
    spec.name: spec
    for spec in (
        AgentSpec(
            name="command",
            description="any program that reads a prompt on stdin and answers on stdout",
            module="command",
            env_keys=_ALL_PROVIDERS,
            login_paths=_ALL_PATHS,
            settings_paths=_ALL_SETTINGS,
            login_variables=_ALL_VARIABLES,
        ),
        AgentSpec(
            name="rehearsal",
            description="a playbook, for demonstrations and tests, without a model",
            module="rehearsal",
            reports_tokens=True,
        ),
        AgentSpec(
            name="claude",
            description="Claude Code",
            module="claude",
            login_hint="Run claude and type /login, or set ANTHROPIC_API_KEY.",
            env_keys=_ANTHROPIC,
            login_paths=_CLAUDE_PATHS,
            settings_paths=_CLAUDE_SETTINGS,
            login_variables=("CLAUDE_CONFIG_DIR",),
            reports_cost=True,
            reports_tokens=True,
            knows_default_models=True,
            guides=("CLAUDE.md",),
            is_connectable=True,
        ),
        AgentSpec(
            name="codex",
            description="Codex",
            module="codex",
            login_hint="Run: codex login",
            env_keys=_OPENAI,
            login_paths=_CODEX_PATHS,
            settings_paths=_CODEX_SETTINGS,
            login_variables=("CODEX_HOME",),
            reports_tokens=True,
            guides=("AGENTS.md",),
            is_connectable=True,
        ),
        AgentSpec(
            name="gemini",
            description="Gemini CLI",
            module="gemini",
            login_hint="Run gemini and sign in, or set GEMINI_API_KEY.",
            env_keys=_GOOGLE,
            login_paths=_GEMINI_PATHS,
            settings_paths=_GEMINI_SETTINGS,
            reports_tokens=True,
            is_connectable=True,
        ),
        AgentSpec(name="cursor", description="Cursor", guides=("AGENTS.md",), is_connectable=True),
        AgentSpec(
            name="opencode",
            description="opencode",
            module="opencode",
            login_hint="Run: opencode auth login",
            env_keys=_ALL_PROVIDERS,
            login_paths=_OPENCODE_PATHS,
            settings_paths=_OPENCODE_SETTINGS,
            reports_cost=True,
            reports_tokens=True,
            guides=("AGENTS.md",),
            is_connectable=True,
        ),
        AgentSpec(
            name="acp",
            description="any agent that speaks the Agent Client Protocol (ACP): set its `command`",
            module="acp",
            env_keys=_ALL_PROVIDERS,
            login_paths=_ALL_PATHS,
            settings_paths=_ALL_SETTINGS,
            login_variables=_ALL_VARIABLES,
        ),
        AgentSpec(
            name="claude-acp",
            description="Claude Code over ACP",
            module="acp",
            login_hint="Run claude and type /login, or set ANTHROPIC_API_KEY.",
            env_keys=_ANTHROPIC,
            login_paths=_CLAUDE_PATHS,
            settings_paths=_CLAUDE_SETTINGS,
            login_variables=("CLAUDE_CONFIG_DIR",),
            reports_cost=True,
            reports_tokens=True,
            knows_default_models=True,
        ),
        AgentSpec(
            name="codex-acp",
            description="Codex over ACP",
            module="acp",
            login_hint="Run: codex login",
            env_keys=_OPENAI,
            login_paths=_CODEX_PATHS,
            settings_paths=_CODEX_SETTINGS,
            login_variables=("CODEX_HOME",),
            reports_tokens=True,
            guides=("AGENTS.md",),
        ),
        AgentSpec(
            name="gemini-acp",
            description="Gemini CLI over ACP",
            module="acp",
            login_hint="Run gemini and sign in, or set GEMINI_API_KEY.",
            env_keys=_GOOGLE,
            login_paths=_GEMINI_PATHS,
            settings_paths=_GEMINI_SETTINGS,
            reports_tokens=True,
        ),
        AgentSpec(
            name="opencode-acp",
            description="opencode over ACP",
            module="acp",
            login_hint="Run: opencode auth login",
            env_keys=_ALL_PROVIDERS,
            login_paths=_OPENCODE_PATHS,
            settings_paths=_OPENCODE_SETTINGS,
        ),
    )
}
RUNNABLE_AGENTS = tuple(name for name, spec in AGENTS.items() if spec.module)
"""Names of the agents that `ralph run` can run."""
FALLBACK_AGENTS = tuple(name for name in RUNNABLE_AGENTS if name not in ("command", "rehearsal", "acp"))
"""Names of the agents that need no further settings, so that they can take over from another one."""
CONNECTABLE_AGENTS = tuple(name for name, spec in AGENTS.items() if spec.is_connectable)
"""Names of the agents that `ralph setup` can connect to the memory."""


def agent_title(name: str) -> str:
    """Return the name of an agent as people know it, such as "Claude Code"."""
    spec = AGENTS.get(name.removesuffix("-acp"))
    return spec.description if spec and spec.is_connectable else name
