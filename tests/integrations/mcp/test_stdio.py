"""The server over standard input and output, as agents start it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from ralph.integrations.mcp.stdio import MAX_LINE_BYTES
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from tests.integrations.mcp.asking import INITIALIZE, SERVE, Served, over_stdio, request, talk, tool_call

MODES = ["auto", "legacy", "2026-07-28"]


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_lists_and_uses_all_there_is(project: Project, mode: str) -> None:
    project.memory.add("The parser wants tabs.", type="pitfall")
    asks = project.tasks.add("Round prices").id
    project.tasks.block(asks, "Cents or euros?")

    async def speak(client: Client) -> dict[str, Any]:
        added = await client.call_tool("add_task", {"title": "Fix the parser"})
        task = added.structured_content["id"] if added.structured_content else ""
        memory = await client.call_tool("remember", {"content": "Invoices are rounded to cents."})
        id = memory.structured_content["id"] if memory.structured_content else ""
        uses = {
            "search_memories": {"query": "parser"},
            "show_memory": {"id": id},
            "prime": {},
            "list_tasks": {},
            "show_task": {"id": task},
            "report_failure": {"task": task, "tried": "A regex.", "why": "It cannot count."},
            "claim_task": {"id": task},
            "finish_task": {"id": task},
            "answer_task": {"id": asks, "answer": "Cents."},
            "search_history": {"query": "tabs"},
            "forget": {"id": id, "why": "They are not."},
        }
        results = [added, memory, *[await client.call_tool(name, given) for name, given in uses.items()]]
        wrong = await client.call_tool("show_task", {"id": "t-000000"})
        with pytest.raises(MCPError) as caught:
            await client.read_resource("ralph://task/t-000000")
        return {
            "tools": {tool.name for tool in (await client.list_tools()).tools},
            "used": {"add_task", "remember", *uses},
            "errors": [result.content for result in results if result.is_error],
            "wrong": (wrong.is_error, wrong.content[0]),
            "resources": [str(one.uri) for one in (await client.list_resources()).resources],
            "templates": len((await client.list_resource_templates()).resource_templates),
            "prime": (await client.read_resource("ralph://prime")).contents[0],
            "missing": caught.value.code,
        }

    found = talk(over_stdio(project.root, mode), speak)

    assert found["tools"] == found["used"]
    assert not found["errors"]
    assert found["wrong"][0]
    assert "Task not found: t-000000" in found["wrong"][1].text
    assert found["resources"] == ["ralph://prime"]
    assert found["templates"] == 2
    assert "The parser wants tabs." in found["prime"].text
    assert found["missing"] == (-32002 if mode == "legacy" else -32602)


def test_what_is_remembered_through_it_is_the_word_of_an_agent(project: Project) -> None:
    with Served(project.root) as served:
        served.ask(tool_call("remember", content="The parser wants tabs."))

    (memory,) = project.memory.list(MemoryFilter())
    assert memory.source == "explicit"
    assert project.memory.history(memory.id)[0].who == "agent"


def test_a_session_of_the_loop_is_named_with_what_it_remembers(project: Project) -> None:
    task = project.tasks.add("Fix the parser")
    with Served(project.root, RALPH_SESSION="s-1", RALPH_TASK_ID=task.id) as served:
        served.ask(tool_call("remember", content="The parser wants tabs."))
        refused = served.ask(tool_call("finish_task", id=task.id))

    (memory,) = project.memory.list(MemoryFilter())
    assert (memory.origin_task, memory.origin_session) == (task.id, "s-1")
    assert refused["result"]["isError"]
    assert "the loop" in refused["result"]["content"][0]["text"]


def test_garbage_is_answered_and_the_server_goes_on(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.tell(b"", b"   ", b"no json", b"\xff\xff", b"[]", b"null", b'{"jsonrpc": "2.0", "id": 1}')
        codes = [served.hear()["error"]["code"] for _ in range(5)]
        last = served.ask(request("ping", "still here"))
        rest, err, code = served.end()

    assert sorted(codes) == [-32700, -32700, -32600, -32600, -32600]
    assert last == {"jsonrpc": "2.0", "id": "still here", "result": {}}
    assert (rest, err, code) == ([], "", 0)


def test_a_line_that_is_too_long_is_refused_and_the_next_one_answered(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.tell(b'{"x": "' + b"x" * MAX_LINE_BYTES + b'"}', request("ping", 2))
        told, answered = served.hear(), served.hear()

    assert told["error"]["code"] == -32600
    assert "8,000,000 bytes" in told["error"]["message"]
    assert answered["id"] == 2


def test_a_long_argument_is_refused_in_answer_to_its_call(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        told = served.ask(tool_call("remember", "long", content="x" * 2_000_000))

    assert told["id"] == "long"
    assert "may have at most 20,000 characters" in told["result"]["content"][0]["text"]


def test_all_that_was_asked_before_the_input_ended_is_answered(project: Project) -> None:
    with Served(project.root) as served:
        served.tell(request("initialize", 0, **INITIALIZE))
        served.tell(*(tool_call("add_task", number, title=f"Task {number}") for number in range(1, 9)))
        answers, err, code = served.end()

    assert [one["id"] for one in answers] == list(range(9))
    assert (err, code) == ("", 0)
    assert len(project.tasks.list()) == 8


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.into.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        answers, _, _ = served.end()

    assert [one["id"] for one in answers] == [1]


def test_it_ends_when_its_client_is_gone(project: Project) -> None:
    served = Served(project.root)
    served.ask(request("ping"))

    served.out.close()
    served.tell(*(request("tools/list", number) for number in range(50)))
    served.into.close()

    assert served.process.wait(timeout=20) == 0
    assert served.process.stderr
    assert served.process.stderr.read() == b""
    served.process.stderr.close()


def test_ctrl_c_ends_it_without_a_trace(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.ask(request("ping"))
        served.process.send_signal(signal.SIGINT)
        code = served.process.wait(timeout=20)
        assert served.process.stderr
        err = served.process.stderr.read().decode()

    assert code == 130
    assert "Traceback" not in err


def test_a_person_in_a_terminal_is_told_what_it_is_for(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    started = subprocess.Popen(
        [*SERVE, "-C", str(tmp_path), "mcp"], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.close(theirs)
    os.write(ours, b"\x04")

    out, err = started.communicate(timeout=20)

    os.close(ours)
    assert out == b""
    assert err.decode().count("\n") == 1
    assert "ralph setup claude" in err.decode()


def test_nothing_else_gets_into_its_output(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.root / "sitecustomize.py").write_text(
        "import ralph.project as p, os\n"
        "was = p.Project.open.__func__\n"
        "def noisy(cls, start, **more):\n"
        "    print('stray'); os.system('echo child')\n"
        "    return was(cls, start, **more)\n"
        "p.Project.open = classmethod(noisy)\n"
    )
    with Served(project.root, PYTHONPATH=str(project.root)) as served:
        answered = served.ask(tool_call("list_tasks", 1))
        rest, err, _ = served.end()

    assert answered["id"] == 1
    assert rest == []
    assert "stray" in err
    assert "child" in err


def test_options_for_http_without_it_are_refused(tmp_path: Path) -> None:
    ran = subprocess.run([*SERVE, "-C", str(tmp_path), "mcp", "--port", "1"], capture_output=True, text=True)

    assert ran.returncode == 2
    assert "--http" in ran.stderr


@pytest.mark.sqlite
def test_the_handshake_is_over_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    script = (
        "import sys, atexit\n"
        "heavy = ('apsw', 'psutil', 'ralph.project', 'ralph.store', 'http', 'asyncio', 'pathlib', 'yaml', 'rich')\n"
        "atexit.register(lambda: print(*[name for name in heavy if name in sys.modules], file=sys.stderr))\n"
        "sys.argv = ['ralph', 'mcp']\n"
        "from ralph.__main__ import main\n"
        "main()\n"
    )
    line = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}\n'

    ran = subprocess.run(
        [sys.executable, "-S", "-c", script],
        input=line,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert b'"protocolVersion"' in ran.stdout
    assert ran.stderr.strip() == b""
