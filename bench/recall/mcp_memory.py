"""The reference memory server of the Model Context Protocol, asked over its own pipe.

It keeps entities with observations and finds those that contain the query as it stands. A whole question is hardly
ever contained in a memory, so a fair caller goes on as an agent would: it asks for the words of the title one by one
and takes first what most of them found. Both ways are measured; nothing is ranked by the server itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from bench.recall.rankers import Missing
from bench.recall.texts import Memory, Query

PROGRAM = Path(sys.prefix) / "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
MOST_WORDS = 12
"""A patient agent's number of searches for one task."""
STOP_WORDS = frozenset(
    """
    about after all and any are been but can cannot could did does doing don for from get gets had has have her him
    his how into its may more not off one only our out over she should some such than that the their them then there
    these they this those through too under until use used using very was were what when where which while who whom
    why will with would you your
    """.split()
)


class McpMemoryWhole:
    """The server's search with the title of the query, as it stands."""

    def __init__(self) -> None:
        node = shutil.which("node")
        if node is None:
            raise Missing("node is not installed")
        if not PROGRAM.exists():
            raise Missing("the npm package @modelcontextprotocol/server-memory is not installed")
        self._folder = tempfile.TemporaryDirectory(prefix="ralph-bench-")
        self._ids: dict[str, str] = {}
        self._asked = 0
        self._server = subprocess.Popen(
            [node, str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env=dict(os.environ, MEMORY_FILE_PATH=f"{self._folder.name}/memory.jsonl"),
        )
        client = {"name": "bench", "version": "1"}
        self._request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self._send({"method": "notifications/initialized"})

    def add(self, memories: list[Memory]) -> None:
        """Create an entity for each memory."""
        entities = []
        for memory in memories:
            # Names must differ, so the title gets a number; content, files and tags are observations, one each.
            name = f"{memory['title']} ({len(self._ids) + 1})"
            self._ids[name] = memory["id"]
            observations = [memory["content"], *memory["file_refs"], *memory["tags"]]
            entities.append({"name": name, "entityType": "", "observations": observations})
        self._call("create_entities", entities=entities)

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Return what contains the title, in the server's order."""
        return self._found(query["title"] or query["description"])

    def close(self) -> None:
        """End the server and remove its file."""
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.kill()
        self._server.wait()
        self._folder.cleanup()

    def _found(self, text: str) -> list[str]:
        return [self._ids[one["name"]] for one in self._call("search_nodes", query=text)["entities"]]

    def _call(self, tool: str, **arguments: Any) -> Any:
        result = self._request("tools/call", name=tool, arguments=arguments)
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {result['content'][0]['text']}")
        return result["structuredContent"]

    def _request(self, method: str, **params: Any) -> Any:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        assert self._server.stdout
        for line in self._server.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._asked:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
        raise RuntimeError(f"The memory server ended before it answered {method}.")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._server.stdin.flush()


class McpMemory(McpMemoryWhole):
    """The same, and when that finds nothing, the words of the title one by one: most hits first, then the newest."""

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Return what contains the title, or else most of its words."""
        whole = super().search(query, budget_tokens)
        if whole:
            return whole
        words = re.findall(r"\w{3,}", (query["title"] or query["description"]).lower())
        words = [word for word in dict.fromkeys(words) if word not in STOP_WORDS][:MOST_WORDS]
        hits = Counter(id for word in words for id in self._found(word))
        newest = {id: place for place, id in enumerate(reversed(self._ids.values()))}
        return sorted(hits, key=lambda one: (-hits[one], newest[one]))
