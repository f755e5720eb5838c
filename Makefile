# Every target works on a fresh machine with only Python 3.11 or newer, git and make.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
PEERS := .venv-peers
PEERS_PIP := $(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install

.DEFAULT_GOAL := help
.PHONY: help demo clean lock capture docs docs-site gitleaks dist release-check
.PHONY: check lint types layers test test-loaded test-all test-postgres test-agents test-api test-browser test-install fuzz torture soak
.PHONY: bench bench-dashboard bench-hooks bench-recall bench-scale bench-prompts bench-decisions bench-learning bench-loop bench-night prove simulate

help: ## Explain these targets
	@echo "Ralph: a loop for coding agents, with a memory. Each target sets up what it needs."
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 22

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and was not found: install it, or say make PYTHON=/path/to/python3." >&2; exit 1; }
	@echo "Setting up $(VENV) with $(PYTHON) (once) ..."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "The venv module is missing: on Debian or Ubuntu, apt install python3-venv." >&2; exit 1; }

$(VENV)/.run: requirements/run.txt pyproject.toml | $(BIN)/python
	@$(PIP) --require-hashes -r requirements/run.txt
	@$(BIN)/python -m pip --disable-pip-version-check --quiet uninstall --yes ralph 2>/dev/null || true  # its name until 0.1.0
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "Installing the test tools (once) ..."
	@$(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

demo: $(VENV)/.run ## Watch the loop learn: without memory, then with it (under 20 s, no network)
	@$(BIN)/ralph demo

# Debian's packages are installed only where TOOLS=install says that they may be.
MAY_INSTALL = [ "$(TOOLS)" = install ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
INSTALL = apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends

# What produces faults and confines agents: strace ends a process at any system call, bwrap is the sandbox. Without them, or a C
# compiler to turn clocks with, those tests are skipped, which say so.
$(VENV)/.faults: | $(BIN)/python
	@if command -v strace >/dev/null 2>&1 && command -v bwrap >/dev/null 2>&1; then touch $@; exit 0; fi; \
	if $(MAY_INSTALL); then \
		echo "Installing strace and bubblewrap to test with (once) ..."; \
		{ $(INSTALL) strace bubblewrap; } >/dev/null 2>&1 && touch $@ && exit 0; \
	fi; \
	echo "strace or bwrap is missing: the tests that need it are skipped. On Debian: apt install strace bubblewrap, or say make test TOOLS=install as root."

test: $(VENV)/.dev ## Run the tests on SQLite, without the slow ones (under 3 minutes)
	@$(BIN)/pytest -m "not slow"

LOAD ?= 8
test-loaded: $(VENV)/.dev ## Run the same tests beside LOAD=8 busy processes, with SIGHUP, SIGINT and SIGQUIT ignored
	@$(BIN)/python -m tests.loaded $(LOAD) -m "not slow"

# What fails beside other tests runs once more, alone. What passes then stays in the output as a failure to look into.
TEST = $(BIN)/pytest --cache-clear $(1) || { [ $$? = 1 ] && echo "Once more, alone, what failed:" && \
	$(BIN)/pytest -n 0 --last-failed --last-failed-no-failures none $(1); }

test-all: $(VENV)/.dev $(VENV)/.faults ## Run every test on SQLite, slow ones included
	@$(call TEST,)

# What looks for inputs by the code that they reach. Where it has no wheel, or cannot be had, there are other inputs alone.
$(VENV)/.fuzz: requirements/fuzz.txt $(VENV)/.dev
	@echo "Installing atheris to fuzz with (once) ..."
	@if $(PIP) --require-hashes --no-deps -r requirements/fuzz.txt >/dev/null 2>&1 && $(BIN)/python -c 'import atheris' 2>/dev/null; then touch $@; \
	else echo "atheris could not be installed (it is for Linux on x86_64, Python 3.11 to 3.13): inputs are made without it."; fi

fuzz: $(VENV)/.fuzz ## Give sigils and every reader inputs that nobody thought of; RUNS=20000 for each, ARGS="sigils MCP"
	@$(BIN)/python -m tests.faults.fuzzing $(if $(RUNS),--runs $(RUNS)) $(ARGS)

torture: $(VENV)/.dev $(VENV)/.faults $(VENV)/.fuzz ## Produce every fault at full size and write docs/reliability.md (long); ARGS="--only kill"
	@$(BIN)/python -m tests.faults.torture $(ARGS)

MINUTES ?= 30
soak: $(VENV)/.dev ## Loops, writers, readers, a server and random kills for MINUTES=30: nothing may grow
	@$(BIN)/python -m tests.faults.torture --only soak --size $$(( $(MINUTES) * 60 ))

# A pooler to test behind. Without Debian's packages or a network its tests are skipped, which say so.
$(VENV)/.pgbouncer: | $(BIN)/python
	@mkdir -p $(VENV)/pgbouncer
	@command -v pgbouncer >/dev/null 2>&1 || { cd $(VENV)/pgbouncer && apt-get download pgbouncer libc-ares2 libevent-2.1-7 && \
		for deb in *.deb; do dpkg -x "$$deb" . || exit 1; done && rm -f *.deb; } >/dev/null 2>&1 || \
		echo "pgbouncer was not found and could not be downloaded: the tests behind it are skipped."
	@touch $@

test-postgres: $(VENV)/.dev $(VENV)/.pgbouncer ## Run every test that touches the store on PostgreSQL, on a server of its own
	@$(call TEST,--store postgres)

# Real agents to test with, whole or not at all. Without npm, or where it reaches no packages, their tests are skipped,
# which say so; where it could install them and fails, only AGENTS=skip goes on without them.
AGENTS_FOLDER := $(VENV)/agents
$(VENV)/.agents: tests/real_agents/node/package.json tests/real_agents/node/package-lock.json | $(BIN)/python
	@rm -rf $(AGENTS_FOLDER) $(AGENTS_FOLDER).part && mkdir -p $(AGENTS_FOLDER).part && cp $^ $(AGENTS_FOLDER).part
	@if [ "$(AGENTS)" = skip ]; then \
		echo "AGENTS=skip: real agents are not installed, and the tests with them are skipped."; \
	elif ! { command -v npm && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; } >/dev/null 2>&1; then \
		echo "Node.js 20 or newer with npm was not found: the tests with real agents are skipped."; \
	else \
		echo "Installing real agents to test with (once, about 1.4 GB) ..."; \
		if (cd $(AGENTS_FOLDER).part && npm ci --silent --no-audit --no-fund --prefer-offline --fetch-retries 1 --fetch-retry-mintimeout 2000); \
		then mv $(AGENTS_FOLDER).part $(AGENTS_FOLDER) && touch $@; \
		elif npm view --silent @anthropic-ai/claude-code version >/dev/null 2>&1; then rm -rf $(AGENTS_FOLDER).part; \
			echo "npm could not install the agents to test with: see what npm ci says, or say make test-agents AGENTS=skip." >&2; exit 1; \
		else echo "npm reaches no packages from here: the tests with real agents are skipped."; fi; \
	fi
	@rm -rf $(AGENTS_FOLDER).part

test-agents: $(VENV)/.dev $(VENV)/.agents ## Run real agents (Claude Code, its ACP adapter, Gemini CLI, Codex, opencode) against a scripted model
	@$(call TEST,-rs tests/real_agents)

test-api: $(VENV)/.dev ## Ask a real server what nobody thought of (schemathesis); CASES=10000 for long
	@$(BIN)/python -m tests.web.fuzz $(if $(CASES),--cases $(CASES))

# A browser to test with: one that is there, or Debian's when TOOLS=install says that it may be installed here.
# Without one the tests in it are skipped, which say so; one that is there and fails is a failure.
$(VENV)/.chromium: | $(BIN)/python
	@for name in "$$RALPH_CHROMIUM" chromium chromium-browser google-chrome; do \
		if [ -n "$$name" ] && command -v "$$name" >/dev/null 2>&1; then touch $@; exit 0; fi; done; \
	if $(MAY_INSTALL); then \
		echo "Installing Chromium to test with (once) ..."; \
		{ $(INSTALL) chromium fonts-dejavu-core; } >/dev/null 2>&1 && touch $@ && exit 0; \
	fi; \
	echo "No Chromium could be had: the tests in a browser are skipped. On Debian: apt install chromium, or say make test-browser TOOLS=install as root."

$(VENV)/.firefox: | $(BIN)/python
	@for name in "$$RALPH_FIREFOX" firefox-esr firefox; do \
		if [ -n "$$name" ] && command -v "$$name" >/dev/null 2>&1; then touch $@; exit 0; fi; done; \
	if $(MAY_INSTALL); then \
		echo "Installing Firefox to test with (once) ..."; \
		{ $(INSTALL) firefox-esr; } >/dev/null 2>&1 && touch $@ && exit 0; \
	fi; \
	echo "No Firefox could be had: the main stories are walked in Chromium only. On Debian: apt install firefox-esr, or say make test-browser TOOLS=install as root."

test-browser: $(VENV)/.dev $(VENV)/.chromium $(VENV)/.firefox ## Walk through the dashboard in real browsers (Chromium, main stories in Firefox)
	@$(call TEST,-rs tests/browser)

check: lint types layers docs-site test-all test-postgres test-api test-browser test-agents ## All that must pass before a change lands

lint: $(VENV)/.dev ## Style and common mistakes (ruff)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.dev ## Types (mypy, strict)
	@$(BIN)/mypy
	@$(BIN)/mypy --config-file pyproject.toml tests bench

layers: $(VENV)/.dev ## Imports go down only (import-linter)
	@$(BIN)/lint-imports

bench: $(VENV)/.dev ## Measure speed, as ratios within one run
	@$(BIN)/python -m bench

bench-dashboard: $(VENV)/.dev ## Pages with 50,000 memories and 100,000 tasks, and a crowd; BASE=folder of an earlier version, ARGS="--only crowd"
	@$(BIN)/python -m bench.dashboard $(if $(BASE),--base $(BASE)) $(ARGS)

bench-loop: $(VENV)/.dev ## CPU per iteration without the agent, after 2,000 iterations and among 200,000 files
	@$(BIN)/python -m bench overhead

bench-night: $(VENV)/.dev ## A night of 40 tasks with limits, outages, kills and a reboot, beside one without (5 minutes)
	@$(BIN)/python -m bench.night

$(PEERS)/.done: requirements/peers.txt pyproject.toml bench/recall/node/package-lock.json
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and was not found: install it, or say make PYTHON=/path/to/python3." >&2; exit 1; }
	@echo "Setting up $(PEERS) with what Ralph is measured against (once, about 800 MB) ..."
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS_PIP) --require-hashes --no-deps -r requirements/peers.txt
	@$(PEERS_PIP) --no-deps --no-build-isolation --editable .
	@if command -v npm >/dev/null 2>&1; then cp bench/recall/node/package.json bench/recall/node/package-lock.json $(PEERS) && npm ci --silent --prefix $(PEERS); else echo "npm was not found: mcp-memory is left out."; fi
	@touch $@

$(VENV)/.hook-peers: bench/hooks_node/package-lock.json | $(BIN)/python
	@command -v npm >/dev/null 2>&1 || { echo "npm was not found: install it, or see our own figures with make bench." >&2; exit 1; }
	@mkdir -p $(VENV)/hook-peers && cp bench/hooks_node/package.json bench/hooks_node/package-lock.json $(VENV)/hook-peers
	@cd $(VENV)/hook-peers && npm ci --silent --ignore-scripts
	@touch $@

bench-hooks: $(VENV)/.dev $(VENV)/.hook-peers ## Hooks beside claude-mem's, and the start of MCP servers (npm, 150 MB)
	@$(BIN)/python -m bench hooks

simulate: $(VENV)/.dev ## Play 200 tasks of known difficulty: memory, strategies, credit, lift (2 to 4 minutes)
	@$(BIN)/python -m bench simulate

bench-recall: $(PEERS)/.done ## Recall beside its peers; BENCH_DATA=folder for real data, ARGS="--limit 50"
	@$(PEERS)/bin/python -m bench.recall $(ARGS)

# Only to compare with: nothing of Ralph uses tantivy.
$(VENV)/.scale: $(VENV)/.dev
	@$(PIP) tantivy && touch $@

bench-scale: $(VENV)/.scale ## A known memory among many, beside tantivy; RALPH_BENCH_SIZES=10000,1000000 RALPH_BENCH_STORE=postgres
	@$(BIN)/python -m bench scale

bench-prompts: $(VENV)/.dev ## What is shown for labeled prompts; BENCH_DATA=folder of memories.md files, ARGS="--meaning"
	@$(BIN)/python -m bench.prompts $(ARGS)

bench-learning: $(VENV)/.dev ## What is kept of what was said, and what counts as one fact, on labeled sets; ARGS="--list"
	@$(BIN)/python -m bench.learning $(ARGS)

bench-decisions: $(VENV)/.dev ## Whether decisions of the past reach the prompt; BENCH_DATA=folder, ARGS="--limit 5"
	@$(BIN)/python -m bench.decisions $(ARGS)

prove: $(VENV)/.dev ## Corrections that the loop needs with and without its past, and the lift; BENCH_DATA=folder
	@$(BIN)/python -m bench.decisions.prove

dist: $(VENV)/.run ## Build the sdist and the wheel reproducibly, in dist/
	@$(BIN)/python -m tests.distribution.release build dist

# Programs that people install with, apart from the environment that is tested.
INSTALLERS := $(VENV)/installers
$(INSTALLERS)/.done: | $(BIN)/python
	@$(BIN)/python -m venv $(INSTALLERS)
	@$(INSTALLERS)/bin/python -m pip --disable-pip-version-check --quiet install pipx uv
	@touch $@

test-install: $(VENV)/.dev $(INSTALLERS)/.done ## Install the wheel with pip, pipx and uv on every Python that is here
	@RALPH_INSTALLERS=$(CURDIR)/$(INSTALLERS)/bin $(BIN)/pytest -rs tests/distribution/test_install.py

release-check: test-install ## Say what a release still needs; compare two builds
	@$(BIN)/python -m tests.distribution.release check

docs: $(VENV)/.dev ## Generate references and settings, tables in docs and the skill of the plugin
	@$(BIN)/python docs/generate.py

$(VENV)/.docs: requirements/docs.txt $(VENV)/.dev
	@echo "Installing MkDocs (once) ..."
	@$(PIP) --require-hashes --no-deps -r requirements/docs.txt
	@touch $@

docs-site: $(VENV)/.docs ## Build the documentation as a site in site/; open site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

capture: $(VENV)/.dev ## Play the first minute in a terminal and write docs/images/first-minute.svg and .cast
	@$(BIN)/python docs/capture.py

gitleaks: $(VENV)/.dev ## Convert the rules of gitleaks for redaction; CONFIG=gitleaks.toml from its repository
	$(BIN)/python requirements/gitleaks.py $(CONFIG)

lock: $(VENV)/.dev ## Renew the locked dependencies in requirements/
	@$(PIP) uv
	@$(BIN)/uv pip compile pyproject.toml --extra build --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --quiet -o requirements/run.txt
	@$(BIN)/uv pip compile pyproject.toml --extra build --extra acp --extra dev --extra otel --extra plot --extra postgres --extra semantic --extra server --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --quiet -o requirements/dev.txt
	@$(BIN)/uv pip compile pyproject.toml --extra fuzz --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --quiet --constraint requirements/run.txt -o requirements/fuzz.txt
	@$(BIN)/uv pip compile pyproject.toml --extra docs --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --quiet --constraint requirements/dev.txt -o requirements/docs.txt
	@echo sentence-transformers | $(BIN)/uv pip compile pyproject.toml requirements/peers.in --extra build --extra semantic --excludes /dev/stdin --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --quiet -o requirements/peers.txt

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) $(PEERS) site .bench-cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
