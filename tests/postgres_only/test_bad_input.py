"""What a person can get wrong with a server, and what a server can refuse: one sentence each, and nothing is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from ralph.core.errors import RalphError, StoreError, StoreUnavailableError
from ralph.store import open_database, open_store
from ralph.store.database import SCHEMA_VERSION
from ralph.store.postgres import connection
from ralph.store.tasks import TaskDraft
from tests.postgres import Server, free_port
from tests.postgres_only.machine import Machine, Ran, one_sentence

pytestmark = [pytest.mark.postgres, pytest.mark.own_store]

SECRET = "geheim-1a2b3c"  # as it stands in a URL
HBA = "local all postgres trust\nlocal replication postgres trust\nlocal all all scram-sha-256\n"
NAME = "team"


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    """Give a server that wants passwords and has few connections; `db` on it holds a project."""
    started = Server(hba=HBA, max_connections="16")
    started.run("CREATE DATABASE db")
    for role, more in (("ann", ""), ("bob", ""), ("few", "CONNECTION LIMIT 1")):
        started.run(f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}' {more}")
    database = open_database(started.url("db"), create=True)
    with database.transaction():
        from ralph.store.projects import ProjectStore

        ProjectStore(database).add(NAME)
    database.close()
    yield started
    started.remove()


def at(server: Server, database: str, user: str = "ann", password: str = SECRET) -> str:
    return f"postgresql://{user}:{password}@/{database}?host={server.folder}"


def set_up(tmp_path: Path, url: str, patience_seconds: float | None = None) -> Machine:
    """Give a working copy of the project; a URL that is wrong may have been set later."""
    (tmp_path / ".ralph").mkdir(exist_ok=True)
    (tmp_path / ".ralph.toml").write_text(f'[store]\nproject = "{NAME}"\n')
    return Machine(tmp_path, url, patience_seconds=patience_seconds)


# --- the URL -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"postgresql://u:{SECRET}@127.0.0.1:{{port}}/db", "the connection was refused"),
        (f"postgresql://u:{SECRET}@127.0.0.1:99999/db", "the port number is not valid"),
        (f"postgresql://u:{SECRET}@127.0.0.1:abc/db", "is malformed"),
        (f"postgresql://u:{SECRET}@no-such-host.invalid/db", "the host was not found"),
        (f"postgresql://u:x/{SECRET}@localhost/db", "%2F for a /"),
        (f"postgresql://u:{SECRET}@[::1/db", "should look like postgresql://"),
        (f"postgresql://u:{SECRET}%zz@localhost/db", "%25 for a %"),
        ("postgresql://u@localhost/db?colour=red", '"colour"'),
        (f"postgresql://u:{SECRET}@/db?host=/nowhere", "no server at this socket"),
        (f"mysql://u:{SECRET}@localhost/db", "postgresql://user@host/database"),
        (f"postgresql:u:{SECRET}@localhost/db", "not postgresql:…"),
    ],
)
def test_a_wrong_url_is_told_in_one_sentence(tmp_path: Path, url: str, said: str) -> None:
    machine = set_up(tmp_path, url.format(port=free_port()))

    ran = machine.ralph("status")

    assert said in one_sentence(ran, SECRET)


def test_a_port_that_never_answers_is_told_of(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        ran = set_up(tmp_path, f"postgresql://u:{SECRET}@127.0.0.1:{port}/db?connect_timeout=2").ralph("status")

    assert "it did not answer in time. Check host, port and firewall." in one_sentence(ran, SECRET)


@pytest.mark.parametrize(
    ("user", "password", "database", "said"),
    [
        ("ann", f"not-{SECRET}", "db", "wrong user or password"),
        ("zed", SECRET, "db", "wrong user or password"),
        ("ann", SECRET, "nowhere", "has no database 'nowhere'"),
        ("bob", SECRET, "db", "required grants are in docs/postgres.md"),
    ],
)
def test_who_is_not_let_in_is_told_why(
    tmp_path: Path, strict: Server, user: str, password: str, database: str, said: str
) -> None:
    machine = set_up(tmp_path, at(strict, database, user, password))

    assert said in one_sentence(machine.ralph("task", "add", "One"), SECRET)


def test_an_unknown_role_is_named(tmp_path: Path, server: Server) -> None:
    machine = set_up(tmp_path, server.url("postgres", user="zed"))

    assert "has no role 'zed'" in one_sentence(machine.ralph("status"))


def test_a_missing_password_is_asked_for_and_may_come_from_the_environment(tmp_path: Path, strict: Server) -> None:
    strict.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO few", "db")
    machine = set_up(tmp_path, f"postgresql://few@/db?host={strict.folder}")

    missing = machine.ralph("status")
    given = machine.ralph("status", PGPASSWORD=SECRET)

    assert "it requires a password" in one_sentence(missing)
    assert given.code == 0, given.err


def test_a_password_with_any_character_is_taken_and_never_shown(tmp_path: Path, strict: Server) -> None:
    password = "a@b:c/d?e#f%g ü&h"
    strict.run(f"CREATE ROLE odd LOGIN PASSWORD '{password}'")
    right = set_up(tmp_path, at(strict, "db", "odd", quote(password, safe="")))
    wrong = Machine(tmp_path, at(strict, "db", "odd", password))

    let_in = right.ralph("status")

    assert "required grants" in one_sentence(let_in, "d%3Fe")
    assert "f%g" not in one_sentence(wrong.ralph("status"), "d?e")


# --- the database --------------------------------------------------------------------------


def test_a_database_without_tables_is_left_without_any(tmp_path: Path, server: Server) -> None:
    server.run("CREATE DATABASE bare")
    machine = set_up(tmp_path, server.url("bare"))

    said = [one_sentence(machine.ralph(*words)) for words in (("status",), ("task", "add", "One"))]

    assert all("has no Ralph tables yet. Create them with: ralph init" in one for one in said)
    assert server.run("SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'", "bare") == [(0,)]


def test_tables_of_another_program_are_not_touched(tmp_path: Path, server: Server) -> None:
    server.run("CREATE DATABASE foreign_one")
    server.run("CREATE TABLE tasks (id INT); INSERT INTO tasks VALUES (7)", "foreign_one")
    machine = Machine(tmp_path, server.url("foreign_one"))

    assert "tables of another program" in one_sentence(machine.ralph("init"))
    assert server.run("SELECT * FROM tasks", "foreign_one") == [(7,)]
    assert not (tmp_path / ".ralph").exists()


def test_a_database_that_is_not_utf8_is_refused(tmp_path: Path, server: Server) -> None:
    server.run("CREATE DATABASE old_one ENCODING 'SQL_ASCII' TEMPLATE template0")

    ran = Machine(tmp_path, server.url("old_one")).ralph("init")

    assert "has the encoding SQL_ASCII. Create one with the encoding UTF8." in one_sentence(ran)


def test_an_old_server_is_refused(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MIN_SERVER_VERSION", 99)

    with pytest.raises(StoreError, match=r"is PostgreSQL 18\. Ralph needs 99 or newer\.$"):
        open_database(server.url("postgres"))


def test_a_role_that_owns_no_more_than_its_schema_can_do_everything(tmp_path: Path, strict: Server) -> None:
    strict.run("CREATE DATABASE apart")
    machine = Machine(tmp_path, at(strict, "apart"))
    refused = one_sentence(machine.ralph("init"), SECRET)
    strict.run("CREATE SCHEMA ann AUTHORIZATION ann", "apart")

    machine.must("init")
    machine.must("task", "add", "One")
    machine.must("memory", "add", "The parser wants tabs")
    found = machine.must("memory", "search", "tabs")
    doctor = machine.ralph("doctor")

    assert "required grants" in refused
    assert "The parser wants tabs" in found
    assert doctor.code == 0, doctor.out + doctor.err
    assert strict.run("SELECT COUNT(*) FROM pg_extension WHERE extname = 'vector'", "apart") == [(0,)]


def test_tables_of_a_newer_program_are_told_of_unless_they_still_fit(tmp_path: Path, strict: Server) -> None:
    machine = set_up(tmp_path, strict.url("db"))
    try:
        strict.run("UPDATE ralph_schema SET version = 99, oldest = 99", "db")
        refused = [one_sentence(machine.ralph(*words)) for words in (("status",), ("task", "add", "Lost"), ("init",))]
        strict.run("UPDATE ralph_schema SET version = 99, oldest = 6", "db")
        machine.must("task", "add", "Kept")
        listed = machine.must("task", "list")
        versions = strict.run("SELECT version, oldest FROM ralph_schema", "db")
    finally:
        strict.run(f"UPDATE ralph_schema SET version = {SCHEMA_VERSION}, oldest = 6", "db")

    assert all(f"written by a newer Ralph (schema 99, this program knows {SCHEMA_VERSION})" in one for one in refused)
    assert "Kept" in listed
    assert "Lost" not in listed
    assert versions == [(99, 6)]


# --- a server that can only be read ----------------------------------------------------------


def test_a_standby_can_be_read_and_says_where_to_write(tmp_path: Path, strict: Server) -> None:
    machine = set_up(tmp_path, strict.url("db"))
    machine.must("task", "add", "Read me there")
    machine.must("memory", "add", "Replicas lag a little")
    standby = Server(copy_of=strict, hot_standby="on")
    try:
        replica = Machine(tmp_path, standby.url("db"))

        reading = {words: replica.ralph(*words) for words in (("task", "list"), ("memory", "search", "replicas"))}
        watched = replica.ralph("memory", "watch", "--since", "0", "--for", "1")
        writing = [
            replica.ralph(*words)
            for words in (("task", "add", "No"), ("memory", "add", "No"), ("run", "--", "true"), ("init",))
        ]
    finally:
        standby.remove()

    assert "Read me there" in reading["task", "list"].out
    assert "Replicas lag a little" in reading["memory", "search", "replicas"].out
    assert "Replicas lag a little" in watched.out
    assert watched.code == 0, watched.err
    for ran in writing[:3]:
        assert "read-only, for example a replica. Set [store] url to the primary server." in one_sentence(ran)
    assert writing[3].code == 0 or one_sentence(writing[3])


def test_a_read_only_database_is_told_of(tmp_path: Path, strict: Server) -> None:
    url = strict.url("db") + "&options=-c%20default_transaction_read_only%3Don"
    machine = set_up(tmp_path, url)

    assert machine.ralph("status").code == 0
    assert "it is read-only" in one_sentence(machine.ralph("task", "add", "No"))


# --- a server that has no more ---------------------------------------------------------------


def test_too_many_connections_are_told_of_and_pass(tmp_path: Path, strict: Server) -> None:
    strict.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO few", "db")
    few = set_up(tmp_path, at(strict, "db", "few"), patience_seconds=1.0)
    with closing(psycopg.connect(few.url)):
        at_its_limit = few.ralph("status")
    held: list[psycopg.Connection[tuple[object, ...]]] = []
    try:
        with pytest.raises(psycopg.OperationalError):
            while True:
                held.append(psycopg.connect(at(strict, "db")))
        full = few.ralph("status")
    finally:
        for one in held:
            one.close()

    assert "this role or database has no free connections. Try again, or raise its limit." in one_sentence(at_its_limit)
    assert "the server has no free connections. Try again, or put a pooler in front of it." in one_sentence(
        full, SECRET
    )


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Give a folder on a disk of its own with little space."""
    folder = Path(tempfile.mkdtemp(prefix="ralph-disk-", dir="/tmp"))
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=110m,mode=0777", "ralph", str(folder)], check=False, capture_output=True
    )
    if made.returncode:
        folder.rmdir()
        pytest.skip("a disk of little space can only be made where mount is allowed")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


def test_a_full_disk_is_told_of_and_nothing_is_lost(tmp_path: Path, small_disk: Path) -> None:
    small = Server(
        is_durable=True, data=small_disk / "data", wal_level="minimal", max_wal_senders="0", max_wal_size="32MB"
    )
    try:
        small.run("CREATE DATABASE db")
        machine = Machine(tmp_path, small.url("db"))
        machine.must("init", "--project", NAME)
        machine.must("memory", "add", "Before the disk was full")
        filler = small_disk / "filler"
        with filler.open("wb") as file:
            free = os.statvfs(small_disk)
            file.write(bytes((free.f_bavail - 100) * free.f_frsize))
        store = open_store(small.url("db"), NAME)
        added = 0
        with pytest.raises(RalphError) as refused:
            while True:
                store.tasks.add(TaskDraft(title=f"Task {added}", body=os.urandom(100_000).hex()))
                added += 1
        store.close()
        while (ran := machine.ralph("task", "add", "More", "--body", os.urandom(50_000).hex())).code == 0:
            added += 1
        filler.unlink()
        if not small.is_running:  # it ends by itself when not even its log of changes can be written
            small.start()

        machine.must("task", "add", "After the disk was full")
        listed = machine.must("task", "list")
        found = machine.must("memory", "search", "disk")
        doctor = machine.ralph("doctor")
    finally:
        small.remove()

    assert one_sentence(ran)
    assert isinstance(refused.value, StoreError)
    assert "disk is full. Free some space there" in str(refused.value) or isinstance(
        refused.value, StoreUnavailableError
    )
    assert listed.count("ready") == added + 1
    assert "Before the disk was full" in found
    assert doctor.code == 0, doctor.out


def test_a_program_that_stops_in_its_turn_loses_it(
    tmp_path: Path, strict: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = strict.url("db") + "&options=-c%20lock_timeout%3D300ms%20-c%20idle_in_transaction_session_timeout%3D1500ms"
    script = (
        "import time; from ralph.store import open_store; from ralph.store.tasks import TaskDraft\n"
        f"store = open_store({url!r}, {NAME!r})\n"
        "with store.transaction():\n"
        "    store.tasks.add(TaskDraft(title='Half done'))\n"
        "    print('in', flush=True); time.sleep(60)\n"
    )
    machine = set_up(tmp_path, url)
    stopped = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == b"in\n"
        os.kill(stopped.pid, signal.SIGSTOP)
        impatient = open_store(url, NAME)
        monkeypatch.setattr(connection, "RECONNECT_SECONDS", 0.0)
        with pytest.raises(
            StoreUnavailableError, match=r"is busy: another program has locked it for too long\. Try again\.$"
        ):
            impatient.tasks.add(TaskDraft(title="Too early"))
        impatient.close()
        machine.must("task", "add", "Its turn came")
        listed = machine.must("task", "list")
    finally:
        stopped.kill()
        stopped.wait()

    assert "Its turn came" in listed
    assert "Half done" not in listed


# --- text that is none -----------------------------------------------------------------------

NUL_AND_SURROGATES = b"tabs\x00and\xed\xa0\x80spaces\xff \\ud800 \\u0000"


def test_no_text_from_outside_breaks_the_database(tmp_path: Path, strict: Server) -> None:
    strict.run("CREATE DATABASE texts")
    machine = Machine(tmp_path, strict.url("texts"))
    machine.must("init")
    strange = NUL_AND_SURROGATES.decode("utf-8", "replace")

    ran: dict[str, Ran] = {}
    (tmp_path / "memories.json").write_text(
        '[{"type": "pattern", "content": "JSON \\ud800 and \\u0000 in it", "tags": ["a\\u0000", "\\udfff"]}]'
    )
    no_nul = NUL_AND_SURROGATES.replace(b"\x00", b"")
    (tmp_path / "tasks.md").write_bytes(b"- [ ] First " + NUL_AND_SURROGATES + b"\n")
    ran["import"] = machine.ralph("memory", "import", "memories.json")
    ran["add"] = machine.ralph("memory", "add", strange.replace("\x00", ""))
    ran["stdin"] = machine.ralph("memory", "import", "-", stdin=b'[{"content": "' + NUL_AND_SURROGATES + b'"}]')
    (tmp_path / ".agent").mkdir(exist_ok=True)
    (tmp_path / ".agent" / "memories.md").write_bytes(
        b"# Memories\n\n## Patterns\n\n### mem-1700000000-0a0a\n> One "
        + no_nul
        + b"\n<!-- tags: a | created: 2026-01-02 -->\n"
    )
    ran["file"] = machine.ralph("memory", "list")
    (tmp_path / ".ralph" / "knowledge" / "odd.md").write_bytes(b"# Odd " + no_nul + b"\n\nBody.\n")
    ran["tasks"] = machine.ralph("task", "import", "tasks.md")
    ran["knowledge"] = machine.ralph("memory", "list")
    ran["search"] = machine.ralph("memory", "search", strange.replace("\x00", ""))
    ran["task"] = machine.ralph("task", "add", "Odd one", "--body", strange.replace("\x00", ""))
    (tmp_path / "odd.out").write_bytes(
        b'<knowledge title="Odd">' + NUL_AND_SURROGATES + b"</knowledge><journal>" + NUL_AND_SURROGATES + b"</journal>"
    )
    agent = machine.work("--max-iterations", "1", agent='cat odd.out; echo "<task-done>$RALPH_TASK_ID</task-done>"\n')

    assert agent.end() == 0, agent.errors
    assert [one["outcome"] for one in agent.told("attempt_ended")] == ["done"]
    for way, one in ran.items():
        assert "Traceback" not in one.err, (way, one.err)
        assert one.err.count("\n") <= 2, (way, one.err)
    assert "ok     database   intact" in machine.ralph("doctor").out
    assert strict.run("SELECT COUNT(*) >= 3 FROM memory", "texts") == [(True,)]
