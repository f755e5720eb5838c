"""Real examples of all that is read, short, for fuzzing to begin with; and what may be there very often."""

from __future__ import annotations

import json

from ralph.formats.bundle import write_bundle
from ralph.formats.memories_csv import write_memories_csv
from ralph.formats.memories_json import write_memories_json
from ralph.integrations.setup.edits import HOOKS_KEY
from ralph.integrations.setup.entries import SERVER_NAME
from tests.make import a_memory

AT = "2026-05-01T00:00:00.000Z"
SERVER = {"command": "/bin/python", "args": ["-P", "-m", "ralph", "mcp"]}
HOOK = {"type": "command", "command": "/bin/python -P -m ralph hook stop --agent claude"}

MEMORY = (
    '{"id":"mem-1700000200-a1b2","kind":"pattern","title":"Routes","body":"In `app/routes.py`.","tags":["api"],'
    '"confidence":0.7,"source":"imported","state":"active","created_at":"2026-03-01T08:00:00.000Z",'
    '"updated_at":"2026-03-01T08:00:00.000Z","uses":3,"files":["app/routes.py"]}'
)
LEARNING = (
    '{"id":"learn-0a1b2c3d","type":"strategy","taskType":"test-fix","content":{"description":"First ✓","iterations":4,'
    '"tiny":1e-7,"big":1e+21,"none":[]},"confidence":0.9,"sourceLoops":["loop-1"],'
    '"createdAt":"2026-03-01T08:00:00.000Z","updatedAt":"2026-03-02T09:30:00.250Z","useCount":3,"successRate":1}'
)
BUNDLE = "".join(write_bundle([(a_memory("Tabs", "The parser wants tabs.", tags=("parser",)), ())], "p", AT))
JSON_EXPORT = write_memories_json([a_memory("Tabs", "The parser wants tabs.", tags=("parser",))], "p", AT)
CSV_EXPORT = write_memories_csv([a_memory("Tabs", 'The "parser"\nwants tabs; =1+1', tags=("parser", "b"))])
LEARNINGS = f'{{"version":"1.0.0","checksum":"x","lastUpdated":"{AT}","learnings":[{LEARNING}]}}'
STAGED = f'{{"version":"1.0.0","staged":[{{"id":"s-1","reason":"r","stagedAt":"{AT}","learning":{LEARNING}}}]}}'
MEMORIES_MD = """\
# Memories

## Patterns

### mem-1700000200-a1b2
> Routes are registered in one place.
> A handler never imports another.
<!-- tags: api, layout | created: 2025-01-20 -->

## Decisions

### mem-1700000300-e5f6
> Rows, not documents.
<!-- tags: storage | created: 2025-01-21 -->

## Fixes

## Context
"""
NOTE = (
    '---\ntitle: "Tabs"\ntags: [parser, b-c]\nfeature: f-1\n'
    "created_at: 2026-03-01T08:00:00Z\n---\n\nThe parser wants tabs.\n"
)
NOTE_LIST = "---\ntitle: Tabs\ntags:\n  - parser\n  - b\n# why\n---\nThe parser wants `tabs`.\n"
PROGRESS = """\
# Ralph Progress Log
Started: Mon Jan 12 2026

## Codebase Patterns
- Settings are read in `app/settings.py`, nowhere else.
- Money is kept in cents:
  - never in floats

---

## 2026-01-12 - US-001
- What was implemented: the settings module.
- Files changed: app/settings.py
- **Learnings for future iterations:**
  - Gotchas encountered: none
---
"""
SIGNS = """\
# Guardrails

### Sign: Check input
- **Trigger**: When a form is sent
- **Instruction**: Check every field in `app/forms.py`
- **Added after**: Iteration 3 - a broken order

| Sign | When |
|---|---|
| a | b |
"""
NOTES = (
    "# How we work\n\nWe deploy on Fridays. See `deploy.sh`.\n\n"
    "## Traps\n\n1. The cache is cold.\n   Warm it.\n\n```sh\nmake\n```\n"
)
STATE = (
    '{"loopId":"loop-7","objective":"Make the tests fast","status":"completed","currentIteration":2,"iterations":['
    '{"number":1,"status":"completed","duration":42500,"analysis":{"progressMade":true},"learnings":["Cache it"],'
    '"filesModified":["src/cache.py"]},{"number":2,"status":"failed","analysis":{"error":"Timed out after 60 s"}}]}'
)
TASK_LINES = (
    '{"id":"task-1","title":"Add the page","description":"With a list","status":"closed","priority":1,"blocked_by":[],'
    '"loop_id":"p","created":"2026-02-08T11:35:04+00:00"}\n# a comment\n'
    '{"id":"task-2","title":"Add the route","status":"open","priority":3,"needs":["task-1"],"parent":"task-1"}\n'
)
CHECKLIST = (
    "# Plan\n\n- [ ] Parse the file\n  With care.\n  - [x] Read it\n"
    "  - [ ] Split it\n1. [~] Ship it (high)\n\n```\n- [ ] no\n```\n"
)
PLAYBOOK = (
    '[[task]]\nabout = "tax"\nreview = "x"\n[[task.idea]]\n'
    'says = "y"\nknows = ["a"]\nmodels = ["opus"]\nhats = ["creator"]\n'
    'seconds = 1.5\ntokens = 10\n[[task.idea.edit]]\nfile = "a.py"\nreplace = "a"\nwith = "b"\n'
)
TOML = (
    '[store]\nurl = "sqlite:///x"\n[execution]\nmax_retries = 3\n'
    'gates = ["make test"]\nreview = true\nlease_seconds = 1.5\n'
    '[agent]\nname = "claude"\ncommand = ["a", "b"]\n[models]\nladder = ["a"]\n[models.prices]\nhaiku = [1.0, 5.0]\n'
    '[hats]\norder = ["planner", "creator"]\n[hats.instructions]\nplanner = """\nx"""\n[memories.filter]\nrecent = 30\n'
)
YAML = (
    "event_loop:\n  a: &x 1\nmemories:\n  enabled: true\n  inject: auto\n"
    "  budget: 2000\n  filter:\n    types: [fix]\n    tags: []\n    recent: 30\n"
)
SETTINGS_JSON = (
    '{\n  // mine\n  "permissions": {"allow": ["Bash"],},\n'
    '  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]},\n'
    '  "mcpServers": {"other": {"command": "y", "args": []}}\n}\n'
)
OURS_JSON = json.dumps({HOOKS_KEY: {"Stop": [{HOOKS_KEY: [HOOK]}]}, "mcpServers": {SERVER_NAME: SERVER}}, indent=1)
OURS_TOML = (
    'model = "o"\n\n[mcp_servers.ralph]\ncommand = "/bin/python"\n'
    'args = ["-P", "-m", "ralph", "mcp"]\n\n[mcp_servers.x]\ncommand = "y"\n'
)
CLAUDE = "\n".join(
    json.dumps(one)
    for one in (
        {"type": "system", "subtype": "init", "session_id": "s"},
        {
            "type": "system",
            "subtype": "api_retry",
            "error_status": 529,
            "error": "overloaded",
            "attempt": 1,
            "max_retries": 9,
        },
        {
            "type": "assistant",
            "parent_tool_use_id": None,
            "session_id": "s",
            "message": {
                "id": "m",
                "model": "c",
                "stop_reason": None,
                "usage": {"input_tokens": 1, "output_tokens": 2},
                "content": [
                    {"type": "text", "text": "Done.\n<task-done>t-1</task-done>"},
                    {"type": "tool_use", "id": "u", "name": "Bash", "input": {"command": "ls"}},
                ],
            },
        },
        {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}},
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "num_turns": 2,
            "total_cost_usd": 0.25,
            "result": "r",
            "modelUsage": {"c": {"inputTokens": 1, "outputTokens": 2}},
            "errors": ["a"],
            "stop_reason": "end_turn",
        },
    )
)
HEADLESS = (
    '{"type":"thread.started","thread_id":"x"}\n{"type":"turn.started"}\n'
    '{"type":"item.completed","item":{"type":"agent_message","text":"Hi"}}\n'
    '{"type":"error","message":"{\\"error\\":{\\"message\\":\\"rate limit\\"}}"}\n'
    '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":2}}\n'
    '{"type":"turn.failed","error":{"message":"m"}}\n',
    '{"type":"init","session_id":"x"}\n{"type":"message","role":"assistant","content":"a","delta":true}\n'
    '{"type":"tool_use","tool_name":"t","parameters":{"path":"p"}}\n'
    '{"type":"result","status":"success","stats":{"total_tokens":9,"input_tokens":1,"output_tokens":2}}\n',
    '{"type":"step_start","sessionID":"x"}\n{"type":"text","part":{"text":"a"}}\n'
    '{"type":"step_finish","part":{"reason":"stop","cost":0.1,"tokens":{"input":1,"cache":{"read":2}}}}\n'
    '{"type":"error","error":{"name":"n","data":{"message":"m"}}}\n',
)
HOOK_INPUTS = (
    '{"session_id":"s","cwd":"/tmp","hook_event_name":"Stop","last_assistant_message":"Done. <learning>x</learning>"}',
    '{"conversation_id":"s","workspace_roots":["/tmp",'
    '1],"prompt":"<hook_context>a</hook_context> b","source":"compact"}',
    "stop --agent claude",
    "SessionStart --agent=gemini",
)
TRANSCRIPT = (
    '{"type":"assistant","timestamp":"2026","message":{"role":"assistant","content":[{"type":"text","text":"a"}]}}\n'
    '{"type":"gemini","content":"b"}\n{"payload":{"type":"assistant",'
    '"role":"assistant","content":"c"},"isSidechain":false}\n'
)
SESSIONS = (
    '{"type":"user","uuid":"u1","cwd":"/p","version":"2.1.325","timestamp":"2026-11-17T06:30:59.414Z","message":'
    '{"role":"user","content":"Fix it.\\n<system-reminder>x</system-reminder>"}}\n'
    '{"type":"assistant","version":"1.0.60","message":{"id":"m","content":[{"type":"text","text":"a"},'
    '{"type":"tool_use","id":"t","name":"Edit","input":{"file_path":"/p/a.py"}}]}}\n'
    '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":"b"}]}}\n',
    '{"timestamp":"2026-11-17T06:30:59.414Z","type":"session_meta","payload":{"id":"c","cwd":"/p"}}\n'
    '{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}}\n'
    '{"type":"response_item","payload":{"type":"function_call","name":"shell","call_id":"t",'
    '"arguments":"{\\"command\\":[\\"bash\\",\\"-lc\\",\\"make\\"]}"}}\n'
    '{"type":"response_item","payload":{"type":"function_call_output","call_id":"t",'
    '"output":"Exit code: 2\\nOutput:\\nb"}}\n',
    '{"sessionId":"g","kind":"main"}\n{"$set":{"messages":[{"id":"a","type":"user","content":"a"}]}}\n'
    '{"id":"b","type":"gemini","content":"b","toolCalls":[{"name":"run_shell_command","args":{"command":"make"},'
    '"result":[{"functionResponse":{"response":{"output":"Exit Code: 2"}}}]}]}\n{"$rewindTo":"a"}\n',
    '{"sessionId":"g","messages":[{"id":"a","type":"user","content":[{"text":"a"}]}]}',
    "# aider chat started at 2026-11-17 06:30:59\n\n#### Fix it.  \n\nDone.\n\na.py\n```\n<<<<<<< SEARCH\n"
    "a\n=======\nb\n>>>>>>> REPLACE\n```\n\n> Applied edit to a.py  \n",
)
SESSION_WORDS = (
    *('"user"', '"assistant"', '"type":', '"content":', '"message":', '"payload":', '"is_error":true', '"$set"'),
    *("<system-reminder>", "</system-reminder>", "\n", "#### ", "> ", "*** Begin Patch\\n*** Add File: a"),
)
MCP = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}',
    '{"jsonrpc":"2.0","id":"a","method":"tools/call",'
    '"params":{"name":"search_memories","arguments":{"query":"a","limit":3}}}',
    '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"show_task","arguments":{"id":"t-3f9a01"}}}',
    '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_tasks","arguments":{"status":"pending"}}}',
    '{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"ralph://prime"}}',
    '[{"jsonrpc":"2.0","method":"notifications/cancelled",'
    '"params":{"requestId":1}},{"jsonrpc":"2.0","id":4,"method":"ping"}]',
    '{"jsonrpc":"2.0","id":5,"method":"tools/list",'
    '"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientCapabilities":{}}}}',
)
TEXTS = (
    "The parser in src/parser.py wants tabs. getUserName() fails: ValueError at app/routes.py:12.",
    'password = "hunter2hunter2", token=ghp_0123456789012345678901234567 and https://a:b1@example.com/x',
    "<task-done>t-1</task-done>\nMEMORY:fix:Use tabs.\n\x1b[31mred\x1b[0m",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nAuthorization: Bearer abc123def456ghi",
    "Über die Größe: 漢字 สวัสดี привет καλημέρα مرحبا",
)
KEYS = tuple(
    f'"{name}":'
    for name in (
        *("id", "kind", "type", "title", "body", "content", "tags", "files", "confidence", "created_at", "createdAt"),
        *("state", "source", "uses", "status"),
    )
)
SECRETS = (
    *("AKIA", "sk-", "eyJ", "xoxb-1", "password", "secret:", "token=", "-----BEGIN ", "PRIVATE KEY-----", "://", "@"),
    *(
        "bearer ",
        "authorization: basic ",
        "aws",
        "'",
        "a.",
        "_live_",
        "SG.",
        "AccountKey=",
        "hooks.slack.com/",
        "0" * 40,
    ),
)
SIGILS = ("<journal>", "</journal>", "MEMORY:", "fix:", "task-done", "<task-done>")

MANY: dict[str, tuple[tuple[str, str, str], ...]] = {
    "text": (
        ("", "password=abc{}def\n", ""),
        ("", "AKIA", ""),
        ("", "a:b@", ""),
        ("://", "a:", ""),
        ("", "eyJabcdefghij.", ""),
        ("", "-----BEGIN PRIVATE KEY-----", ""),
        ("aws", "a", " key"),
        ("", "\x1b]", ""),
        ("", "\x1b[0", ""),
        ("", "a/", ".py"),
        ("", "a.", ""),
        ("", "token token=", ""),
        ("", "< ", ""),
        ("", "MEMORY ", ""),
        ("", "sk-aaaaaaaaaaaa", ""),
        ("", "dp.ab.", ""),
        ("", "ya29.", ""),
        ("", "-us1", ""),
    ),
    "search words": (
        ("", "aB", ""),
        ("", "a.b", ""),
        ("", "w{} ", ""),
        ("", "a/", ""),
        ("", "漢", ""),
        ("", "A_", ""),
        ("", "é", ""),
    ),
    "any file of memories": (
        ("# a\n", "## h{}\ntext one\n", ""),
        ("", "- [ ] a{}\n", ""),
        ("---\ntitle: a\ntags: [b]\n", "k{}: a\n", "---\nx\n"),
        ("type,content\n", "fix,a{}\n", ""),
        ("", "# c\n", ""),
        ("", "\n", ""),
        ("[", '{"type":"fix","content":"a{}"},', "{}]"),
        ('{"memories":[', '{"a":1},', "{}]}"),
        ("", "// a\n", "{"),
        ("", "a,b\n", ""),
        ("", "| a ", ""),
        ("", "### mem-{}-a\n> b\n\n", ""),
    ),
    "bundle": (
        ('{"ralph_bundle":1}\n', '{"id":"mem-{}-a","kind":"fix","title":"a","body":"b"}\n', ""),
        ('{"ralph_bundle":1}\n', '{"event":{}}\n', ""),
        ("", "\n", ""),
    ),
    "memories as JSON": (
        ("[", '{"type":"fix","content":"a{}"},', '{"type":"fix","content":"a"}]'),
        ('[{"type":"fix","content":"a","tags":[', '"t{}",', '"x"]}]'),
        ('[{"type":"fix","content":"', "a b", '"}]'),
        ("[", "1,", "1]"),
    ),
    "memories as CSV": (
        ("type,content\n", "fix,a{}\n", ""),
        ('type,content\nfix,"', '""', '"'),
        ("", "a,", ""),
        ("type,content\n", 'fix,"a\n', ""),
    ),
    "learnings": (
        ('{"version":"1.0.0","learnings":[', '{"id":"{}","type":"a","content":"b"},', "1]}"),
        ('{"version":"1.0.0","learnings":[{"content":{', '"{}":1,', '"z":1}}]}'),
    ),
    "memories.md": (
        ("# Memories\n\n## Patterns\n\n", "### mem-{}-a\n> b\n\n", ""),
        ("", "### mem-1-a\n> b\n\n", ""),
        ("", "<<<<<<< a\n", ""),
        ("", "### mem-1-a\n", ""),
        ("## a", " ", "b\nx\n"),
        ("", "<!-- ", ""),
        ("### mem-1-a\n", "> a\n", ""),
        ("### mem-1-a\n> a\n<!-- tags: ", "a{},", " -->"),
        ("", "```\n", ""),
        ("", "`", ""),
        ("", "## Fixes\n", ""),
    ),
    "knowledge notes": (
        ("---\ntitle: a\ntags: [", "a{},", "b]\n---\nx\n"),
        ("---\ntitle: a\ntags: [b]\n", "k{}: 1\n", "---\nx\n"),
        ("---\n", "- ", "\n---\n"),
        ("---\n", "? ", "\n---\n"),
        ('---\ntitle: "', "\\x41", '"\n---\n'),
        ("---\ntitle: a\ntags: [b]\n", "# c\n", "---\nx\n"),
        ("---\n", "a: ", "\n---\n"),
        ("---\n", "!a ", "\n---\n"),
    ),
    "notes, signs, logs": (
        ("# a\n", "- a{}\n", ""),
        ("", "## h{}\n", ""),
        ("", "> ", ""),
        ("", "  - a\n", ""),
        ("", "| a ", ""),
        ("", "**a** ", ""),
        ("", "`a", ""),
        ("", "```\n", ""),
        ("", "### Sign: a{}\n- Trigger: b\n- Instruction: c\n", ""),
        ("", "\n\n", ""),
        ("# a\n", "word ", "\n"),
        ("", "[a](b) ", ""),
        ("", "* ", ""),
        ("", "a:", ""),
        ("## Codebase Patterns\n", "- a{}\n", ""),
        ("", "2026-01-12 ", ""),
        ("", "1. ", ""),
    ),
    "loop state": (
        ('{"iterations":[', '{"status":"failed","error":"E{}: a/b.py"},', "{}]}"),
        ('{"iterations":[{"learnings":[', '"a{}",', '"b"]}]}'),
        ('{"objective":"', "a b", '","iterations":[]}'),
    ),
    "JSON as JavaScript has it": (
        ("{", '"{}":1,', '"z":1}'),
        ("[", "[],", "1]"),
        ('"', "\\u0041", '"'),
        ("[", "1e21,", "1]"),
    ),
    "transcript": (("", '{"type":"gemini","content":"a"}\n', ""),),
    "sessions": (
        ("", '{"type":"user","uuid":"{}","message":{"content":"a"}}\n', ""),
        ("", '{"id":"{}","type":"user","content":"a"}\n', ""),
        ("", '{"id":"a{}"}\n{"$rewindTo":"a{}"}\n', ""),
        ("", '{"type":"message","role":"user","content":[{"text":"a{}"}]}\n', ""),
        ('{"type":"user","message":{"content":"', "<skill>", '"}}\n'),
        ('{"type":"user","message":{"content":"', "\\n<skill>a</skill>", '"}}\n'),
        ("", "#### a{}\n\nb\n", ""),
        ("#### a\n", "```\n<<<<<<< SEARCH\n", ""),
        ("#### a\n```\n", "<<<<<<< SEARCH\n>>>>>>> REPLACE\n", ""),
    ),
    "tasks": (
        ("", "- [ ] a{}\n", ""),
        ("", '{"title":"a{}"}\n', ""),
        ("[", '{"title":"a"},', "1]"),
        ("", "{", ""),
        ("", '{"', ""),
        ("- [ ] a\n", "  b\n", ""),
        ("", "# c\n", ""),
        ("", "- [ ] a ", ""),
        ("", "- [?] a\n", ""),
        ('{"title":"a","needs":[', '"n{}",', '"b"]}'),
        ("", "```\n- [ ] a\n", ""),
    ),
    ".ralph.toml": (
        ("", "k{}=1\n", ""),
        ("[execution]\n", "k{}=1\n", ""),
        ("[models.prices]\n", "k{}=[1,2]\n", ""),
        ("[execution]\ngates=[", "'a',", "]"),
        ("[hats]\norder=[", "'creator',", "]"),
        ("a=", "[", ""),
        ("", "a.", "a=1"),
        ("", "[a{}]\n", ""),
        ("", "[[a]]\n", ""),
        ("", "[a.b{}]\nc=1\n", ""),
        ("a={", "b{}=1,", "c=1}"),
        ("a=", '"""\n', ""),
        ("", "#\n", ""),
        ("[hats.kinds]\n", "k{}=['a']\n", ""),
    ),
    "ralph.yml": (
        ("memories:\n", "  k{}: 1\n", ""),
        ("memories:\n  filter:\n    tags: [", "a{},", "]\n"),
        ("", "- ", ""),
        ("", "? ", ""),
        ("", "a: ", ""),
        ("", "!a ", ""),
        ("", "k{}: 1\n", ""),
        ("", "&a{} b\n", ""),
        ("a: |\n", "  b\n", ""),
        ("a: '", "''", "'"),
        ("", "# c\n", ""),
        ("", "%a\n", ""),
        ("", "---\n", ""),
        ("memories:\n  budget: ", "9", "\n"),
        ("a: 1", "1:1", "\n"),
        ("a: 1", "_1", ".\n"),
    ),
    "variables": (
        ("", "a ", ""),
        ("", "a\n", ""),
        ("", "'", ""),
    ),
    "playbook": (
        ("", "[[task]]\nabout='a'\n", ""),
        ("[[task]]\nabout='a'\n", "[[task.idea]]\nsays='b'\n", ""),
        ("", "k{}=1\n", ""),
        ("[[task]]\nabout=", "1", "\n"),
    ),
    "JSON in place": (
        ("{", '"k{}":1,', '"z":1}'),
        ("[", "[", "]"),
        ("", "// a\n", "{}"),
        ("", "/* a */", "{}"),
        ("{", "/*", ""),
        ('{"a":"', "\\\\", '"}'),
        ("[", "1,", "1]"),
        ("[", "// a\n", "]"),
    ),
    "setup, JSON": (
        ("{", '"k{}":1,', '"z":1}'),
        ('{"permissions":{"allow":[', '"a{}",', '"z"]}}'),
        ('{"hooks":{', '"S{}":[],', '"z":[]}}'),
        ('{"hooks":{"Stop":[{"hooks":[{"command":"', "a ", '"}]}]}}'),
    ),
    "setup, TOML": (
        ("", "[mcp_servers.ralph]\n", ""),
        ("", "k{}=1\n", ""),
        ("", "[a{}]\n", ""),
        ("a='''\n", "[mcp_servers.ralph]\n", "'''\n[mcp_servers.ralph]\ncommand='ralph'\nargs=['mcp']\n"),
        ("a=", "1", "\n"),
    ),
    "Claude Code": (
        ("", '{"type":"assistant","message":{"id":"m{}","content":[{"type":"text","text":"a"}]}}\n', ""),
        ('{"type":"assistant","message":{"id":"m","content":[', '{"type":"text","text":"a{}"},', "1]}}\n"),
        ("", '{"type":"result"}\n', ""),
        ("", "x\n", ""),
    ),
    "Codex, Gemini, opencode": (
        ("", '{"type":"message","role":"assistant","content":"a","delta":true}\n', ""),
        ('{"type":"error","message":"', "{", '"}\n'),
        ('{"type":"error","message":"', "timed out ", '"}\n'),
    ),
    "JSON lines": (
        ("", "{}\n", ""),
        ("", "x", ""),
    ),
    "verification": (
        ("", "<verify-pass/>\n", ""),
        ("", "a\n", ""),
    ),
    "hook": (
        ('{"prompt":"', "a ", '"}'),
        ("", "--agent ", ""),
        ("", "aB", ""),
        ('{"workspace_roots":[', "1,", "1]}"),
    ),
    "MCP": (
        ("[", '{"jsonrpc":"2.0","id":1,"method":"ping"},', "1]"),
        (
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_memories","arguments":{"query":"',
            "a{} ",
            '"}}}',
        ),
    ),
}
"""For each reader: a head, what is repeated, `{}` in it becomes a number, and a tail."""
