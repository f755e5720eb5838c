"""Environment variables passed to agents, gates and git.

This is an allowlist, since nobody can enumerate all variables that hold a secret. It contains what programs need to
run and what an agent needs to log in to its model; anything else is named in the configuration. It keeps secrets from
being seen, printed and sent by a program that does not need them. It is not a sandbox: a program that runs as the user
can read the user's files.

"""

from __future__ import annotations

import os

from ralph.core.agents import AGENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SHELL_VARIABLES = {"OLDPWD", "MAIL", "SHLVL", "_"}
"""Variables that shells set for themselves."""
WILDCARD = "*"
"""Wildcard at the end of a name; alone it allows everything."""

_USER = (
    *("HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "PWD", "EMAIL", "TMPDIR", "TMP", "TEMP", "TZ", "TZDIR"),
    *("PATH", "MANPATH", "LANG", "LANGUAGE", "LC_*", "LOCPATH", "EDITOR", "VISUAL", "PAGER", "LESS", "BROWSER"),
    *("TERM", "TERMINFO", "TERMINFO_DIRS", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM", "COLUMNS", "LINES"),
    *("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "DEBIAN_FRONTEND", "SOURCE_DATE_EPOCH"),
    # Not XDG_RUNTIME_DIR: its sockets start programs outside our guard and give access to keyrings.
    *("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
)
_NETWORK = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE"),
    *("NIX_SSL_CERT_FILE", "PIP_CERT", "CARGO_HTTP_CAINFO", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "DENO_CERT"),
    *("NODE_USE_SYSTEM_CA", "DENO_TLS_CA_STORE"),
)
_GIT = (
    *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_EDITOR", "GIT_PAGER"),
    # Not those that may hold credentials: GIT_CONFIG_VALUE_0, GIT_ASKPASS, SSH_AUTH_SOCK.
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_TERMINAL_PROMPT", "GIT_EXEC_PATH"),
    *("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"),
)
_TOOLS = (
    # Paths and build options; not the tokens with which the same tools publish.
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_*", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
    *("PKG_CONFIG_PATH", "CC", "CXX", "CPP", "AR", "LD", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS"),
    *("CMAKE_PREFIX_PATH", "CMAKE_GENERATOR", "CMAKE_BUILD_PARALLEL_LEVEL", "CCACHE_DIR", "SDKROOT", "DEVELOPER_DIR"),
    *("PYTHON*", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_SHLVL"),
    *("CONDA_PYTHON_EXE", "MAMBA_EXE", "MAMBA_ROOT_PREFIX", "PYENV_ROOT", "PYENV_VERSION", "PIPX_HOME", "PIPX_BIN_DIR"),
    *("PIP_CACHE_DIR", "PIP_DISABLE_PIP_VERSION_CHECK", "PIP_NO_CACHE_DIR", "POETRY_HOME", "POETRY_CACHE_DIR"),
    *("UV_CACHE_DIR", "UV_PYTHON", "UV_PYTHON_INSTALL_DIR", "UV_PROJECT_ENVIRONMENT", "UV_TOOL_DIR"),
    *("PYTEST_ADDOPTS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "COVERAGE_FILE", "COVERAGE_PROCESS_START", "MYPY_CACHE_DIR"),
    *("NODE_PATH", "NODE_OPTIONS", "NODE_ENV", "NODE_VERSION", "NVM_DIR", "NVM_BIN", "NVM_INC", "FNM_DIR"),
    *("FNM_MULTISHELL_PATH", "VOLTA_HOME", "N_PREFIX", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "DENO_INSTALL"),
    *("COREPACK_HOME", "YARN_CACHE_FOLDER", "npm_config_cache", "npm_config_prefix", "npm_config_userconfig"),
    *("PLAYWRIGHT_BROWSERS_PATH", "PUPPETEER_CACHE_DIR", "PUPPETEER_EXECUTABLE_PATH", "CHROME_BIN", "CHROME_PATH"),
    *("CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "CARGO_INCREMENTAL", "CARGO_TERM_COLOR", "RUSTUP_HOME"),
    *("RUSTUP_TOOLCHAIN", "RUSTFLAGS", "RUSTC_WRAPPER", "RUST_BACKTRACE", "RUST_LOG", "RUST_MIN_STACK"),
    *("GOPATH", "GOROOT", "GOBIN", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPRIVATE", "GONOSUMDB", "GONOSUMCHECK"),
    *("GOTOOLCHAIN", "GOOS", "GOARCH", "GOMAXPROCS", "GO111MODULE", "CGO_ENABLED", "GOTMPDIR", "GOEXPERIMENT"),
    *("JAVA_HOME", "JDK_HOME", "JAVA_TOOL_OPTIONS", "JAVA_OPTS", "CLASSPATH", "MAVEN_HOME", "M2_HOME", "MAVEN_OPTS"),
    *("GRADLE_HOME", "GRADLE_USER_HOME", "GRADLE_OPTS", "KOTLIN_HOME", "SCALA_HOME", "SBT_OPTS", "SDKMAN_DIR"),
    *("ANDROID_HOME", "ANDROID_SDK_ROOT", "ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "FLUTTER_ROOT", "PUB_CACHE"),
    *("DOTNET_ROOT", "DOTNET_CLI_HOME", "DOTNET_CLI_TELEMETRY_OPTOUT", "DOTNET_NOLOGO", "NUGET_PACKAGES"),
    *("RBENV_ROOT", "RBENV_VERSION", "RUBYLIB", "RUBYOPT", "GEM_HOME", "GEM_PATH", "BUNDLE_PATH", "BUNDLE_GEMFILE"),
    *("PERL5LIB", "PERL_LOCAL_LIB_ROOT", "PERL_MB_OPT", "PERL_MM_OPT", "COMPOSER_HOME", "MIX_HOME", "HEX_HOME"),
    *("ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "MISE_CONFIG_DIR", "MISE_SHELL", "DIRENV_DIR", "OPAMROOT"),
    *("OPAM_SWITCH_PREFIX", "CAML_LD_LIBRARY_PATH", "OCAML_TOPLEVEL_PATH", "STACK_ROOT", "GHCUP_INSTALL_BASE_PREFIX"),
    *("JULIA_DEPOT_PATH", "JULIA_PROJECT", "R_HOME", "R_LIBS", "R_LIBS_USER", "NIX_PATH", "NIX_PROFILES"),
    *("HOMEBREW_PREFIX", "HOMEBREW_CELLAR", "HOMEBREW_REPOSITORY", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "WSL_DISTRO_NAME", "WSL_INTEROP", "IN_NIX_SHELL"),
)
_RALPH = (
    # Configuration; the loop passes the location of the store separately, without its password.
    *("RALPH_EXECUTION_*", "RALPH_AGENT_*", "RALPH_LIMITS_*", "RALPH_MODELS_*", "RALPH_HATS_*", "RALPH_PROMPT_*"),
    *("RALPH_MEMORIES_*", "RALPH_STORE_PROJECT", "PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE"),
    *("PGPASSFILE", "PGSERVICEFILE", "PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGCONNECT_TIMEOUT"),
)
_BASE = frozenset((*_USER, *_NETWORK, *_GIT, *_TOOLS, *_RALPH))

_PROVIDER_SWITCHES = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_*",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_*", "GCLOUD_PROJECT", "CLOUD_ML_REGION", "VERTEX_*", "CLOUDSDK_CONFIG"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_*",),
    "CLAUDE_CODE_ENABLE_TELEMETRY": ("OTEL_*",),
    "GOOGLE_GENAI_USE_VERTEXAI": ("GOOGLE_*", "CLOUDSDK_CONFIG"),
    "GOOGLE_GENAI_USE_GCA": ("GOOGLE_*",),
}
"""Additional patterns once the user has switched an agent to a cloud provider."""
_WITHHELD = ("RALPH_TRUST", "RALPH_NOTIFY_")
"""Beginnings of the names of decisions and secrets of a person, which no program inherits, whatever is configured."""
_FALSE_VALUES = ("", "0", "false", "no", "off")


def allowed_environment(
    *, agent: str = "", variable_names: Iterable[str] = (), environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the variables a program receives: the common ones, the agent's login and `variable_names`.

    `agent` is the name of the agent; gates and git have none. `environment` defaults to our own.

    """
    inherited = os.environ if environment is None else environment
    login = AGENTS[agent].env_keys if agent in AGENTS else ()
    patterns = {*_BASE, *login, *variable_names}
    for switch, extra in _PROVIDER_SWITCHES.items():
        if (
            agent
            and matches_pattern(switch, patterns)
            and inherited.get(switch, "").strip().lower() not in _FALSE_VALUES
        ):
            patterns.update(extra)
    prefixes = _prefixes(patterns)
    return {
        name: value
        for name, value in inherited.items()
        if (name in patterns or name.startswith(prefixes)) and not name.startswith(_WITHHELD)
    }


def withheld_variables(passed: Mapping[str, str]) -> list[str]:
    """Return the names of our variables that a program did not receive."""
    return sorted(set(os.environ) - set(passed) - _SHELL_VARIABLES)


def matches_pattern(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a variable matches one of the patterns; `MYAPP_*` matches a prefix."""
    return name in patterns or name.startswith(_prefixes(patterns))


def _prefixes(patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(pattern[:-1] for pattern in patterns if pattern.endswith(WILDCARD))


def is_variable_pattern(text: str) -> bool:
    """Return whether a text is a valid variable name or prefix pattern."""
    name = text.removesuffix(WILDCARD)
    return text == WILDCARD or (name.isascii() and name.isidentifier())
