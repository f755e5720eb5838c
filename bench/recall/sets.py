"""The sets to measure on: from the folder BENCH_DATA names, or made up.

A set is a list of stores. A store replays its history as events: memories are added, a query is asked, more are added.
So a query never sees anything later than itself. What a ranker gets of a query is made here, field by field: its id
and group would give the answer away.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.recall import made
from bench.recall.texts import Memory, Query

ENDINGS = (".jsonl.gz", ".jsonl")
MEMORY_FIELDS: dict[str, Any] = {"title": "", "content": "", "tags": [], "file_refs": [], "created_at": ""}
QUERY_FIELDS: dict[str, Any] = {"title": "", "description": "", "files": [], "errors": [], "now": ""}


class BadData(Exception):
    """The data cannot be used; the message is one sentence that says why."""


class Added(NamedTuple):
    """Memories that are there from now on."""

    memories: list[Memory]


class Asked(NamedTuple):
    """A query, and the ids of the memories that answer it."""

    query: Query
    relevant: set[str]


Store = list[Added | Asked]
Sets = dict[str, list[Store]]


def made_sets() -> Sets:
    """Return the made-up sets."""
    return {name: [_store(events) for events in stores] for name, stores in made.sets().items()}


def read_sets(folder: Path) -> Sets:
    """Return all sets in a folder or in its `data` folder, by name."""
    if not folder.is_dir():
        raise BadData(f"BENCH_DATA names {folder}, which is not a folder.")
    try:
        files = sorted(
            file
            for place in (folder, folder / "data")
            if place.is_dir()
            for file in place.iterdir()
            if file.name.endswith(ENDINGS)
        )
    except OSError as error:
        raise BadData(f"BENCH_DATA names {folder}, which cannot be read: {error.strerror}.") from error
    if not files:
        raise BadData(f"BENCH_DATA names {folder}, which has no *.jsonl or *.jsonl.gz in it or in its data folder.")
    return {file.name.removesuffix(".gz").removesuffix(".jsonl"): _read(file) for file in files}


def first(stores: list[Store], queries: int) -> list[Store]:
    """Return the history up to the given number of queries."""
    kept: list[Store] = []
    for store in stores:
        if queries <= 0:
            break
        kept.append([])
        for event in store:
            if isinstance(event, Asked):
                queries -= 1
            kept[-1].append(event)
            if queries <= 0:
                break
    return kept


def _read(file: Path) -> list[Store]:
    stores = []
    for number, line in enumerate(read_lines(file), start=1):
        try:
            stores.append(_store(json.loads(line)["events"]))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            told = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise BadData(f"{file}, line {number} is not a store with events: {told.rstrip('.')}.") from error
    if not any(isinstance(event, Asked) for store in stores for event in store):
        raise BadData(f"{file} asks no query.")
    return stores


def read_lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file that have text, unpacked."""
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rt", encoding="utf-8") as lines:
            yield from filter(str.strip, lines)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadData(f"{file} cannot be read: {str(error).rstrip('.')}.") from error


def _store(events: list[Any]) -> Store:
    store: Store = []
    known: set[str] = set()
    for event in events:
        if event[0] == "add":
            memories = [{"id": memory["id"], **_fields(memory, MEMORY_FIELDS)} for memory in event[1]]
            known.update(memory["id"] for memory in memories)
            store.append(Added(memories))
        elif event[0] == "query":
            relevant = set(event[2])
            if not relevant or not relevant <= known:
                raise ValueError("a query must be answered by memories added before it")
            store.append(Asked(_fields(event[1], QUERY_FIELDS), relevant))
        else:
            raise ValueError(f"an event is an add or a query, not {event[0]!r}")
    return store


def _fields(given: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: given.get(name) or default for name, default in wanted.items()}
