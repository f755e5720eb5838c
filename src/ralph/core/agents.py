"""Registry of coding agents.

To add an agent, add an entry here, a module with a `build` function under `ralph.agents`, and its test. If
`ralph setup` can connect it to the memory, set `is_connectable` and add the files to `ralph.integrations.setup.agents`.
Command-line choices, environment variables, settings comments and the table in docs/agents.md follow from the entry.
"""

from __future__ import annotations

from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

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
    login_step: str = "Log in with the agent's own command, or set the key that it reads"
    """What to do when it is not logged in."""
    login_keys: tuple[str, ...] = ()
    """Variables that log it in instead, of which one is enough."""
    guides: tuple[str, ...] = ()
    """Files of a project that it certainly reads at the start of every session."""
    is_connectable: bool = False
    """Whether `ralph setup` can connect it to the memory through hooks, an MCP server or a skill."""

    def login_hint(self, environment: Mapping[str, str]) -> str:
        """Return what to do when it is not logged in, as a sentence that names the keys that are not set."""
        if refused := [name for name in self.login_keys if environment.get(name)]:
            return f"{self.login_step}, or correct {refused[0]}, which is set but was not accepted."
        return (
            f"{self.login_step}, or set {' or '.join(self.login_keys)}." if self.login_keys else f"{self.login_step}."
        )


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
            login_step="Run `claude` and type /login",
            login_keys=("ANTHROPIC_API_KEY",),
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
            login_step="Run `codex login`",
            login_keys=("CODEX_API_KEY",),
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
            login_step="Run `gemini` and sign in",
            login_keys=("GEMINI_API_KEY",),
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
            login_step="Run `opencode auth login`",
            login_keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
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
            login_step="Run `claude` and type /login",
            login_keys=("ANTHROPIC_API_KEY",),
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
            login_step="Run `codex login`",
            login_keys=("CODEX_API_KEY",),
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
            login_step="Run `gemini` and sign in",
            login_keys=("GEMINI_API_KEY",),
            env_keys=_GOOGLE,
            login_paths=_GEMINI_PATHS,
            settings_paths=_GEMINI_SETTINGS,
            reports_tokens=True,
        ),
        AgentSpec(
            name="opencode-acp",
            description="opencode over ACP",
            module="acp",
            login_step="Run `opencode auth login`",
            login_keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
            env_keys=_ALL_PROVIDERS,
            login_paths=_OPENCODE_PATHS,
            settings_paths=_OPENCODE_SETTINGS,
        ),
        AgentSpec(
            name="copilot",
            description="Copilot CLI",
            module="acp",
            login_step="Run `copilot login`",
            login_keys=("COPILOT_GITHUB_TOKEN",),
            # Not GH_TOKEN and GITHUB_TOKEN, which it would accept: they may do more than ask a model.
            env_keys=("COPILOT_*", "GH_HOST", "USE_BUILTIN_RIPGREP"),
            login_paths=(".copilot",),
            settings_paths=(*(f".copilot/{name}" for name in ("mcp-config.json", "hooks", "skills", "agents")),),
            login_variables=("COPILOT_HOME",),
            reports_tokens=True,
            guides=("AGENTS.md",),
            is_connectable=True,
        ),
        AgentSpec(
            name="qwen",
            description="Qwen Code",
            module="acp",
            login_step="Run `qwen` and type /auth",
            login_keys=("OPENAI_API_KEY",),
            env_keys=(*_ALL_PROVIDERS, "QWEN_*"),
            login_paths=(".qwen",),
            settings_paths=(".qwen/settings.json", ".qwen/QWEN.md", ".qwen/skills"),
            login_variables=("QWEN_HOME",),
            reports_tokens=True,
            guides=("AGENTS.md",),
            is_connectable=True,
        ),
        AgentSpec(
            name="cline",
            description="Cline",
            module="acp",
            login_step="Run `cline auth`",
            login_keys=("CLINE_API_KEY",),
            env_keys=("CLINE_*",),
            login_paths=(".cline",),
            settings_paths=(".cline/data/settings/cline_mcp_settings.json", ".cline/hooks", ".cline/rules"),
            is_connectable=True,
        ),
        AgentSpec(
            name="droid",
            description="Factory Droid",
            module="acp",
            login_step="Run `droid` and log in",
            login_keys=("FACTORY_API_KEY",),
            env_keys=("FACTORY_*", "DROID_*"),
            login_paths=(".factory",),
            settings_paths=(*(f".factory/{name}" for name in ("settings.json", "mcp.json", "hooks.json", "skills")),),
            guides=("AGENTS.md",),
        ),
        AgentSpec(
            name="auggie",
            description="Auggie",
            module="acp",
            login_step="Run `auggie login`",
            login_keys=("AUGMENT_SESSION_AUTH",),
            env_keys=("AUGMENT_*",),
            login_paths=(".augment",),
            settings_paths=(".augment/settings.json", ".augment/rules", ".augment/skills"),
        ),
        AgentSpec(
            name="goose",
            description="Goose",
            module="acp",
            login_step="Run `goose configure`, or set GOOSE_PROVIDER and the key of that provider",
            env_keys=(*_ALL_PROVIDERS, "GOOSE_*"),
            login_paths=(".local/share/goose", ".local/state/goose"),
            settings_paths=(".config/goose",),
            guides=("AGENTS.md",),
        ),
        AgentSpec(name="windsurf", description="Windsurf", is_connectable=True),
        AgentSpec(name="kilo", description="Kilo Code", is_connectable=True),
        AgentSpec(name="antigravity", description="Antigravity", is_connectable=True),
        AgentSpec(name="agents-md", description="an agent that reads AGENTS.md", is_connectable=True),
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
