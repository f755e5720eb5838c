"""A pgbouncer of our own in front of a server: each transaction may be given another connection."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from tests.postgres import Server, die_with_parent

PORT = 6432
_SETTINGS = {
    "listen_addr": "",
    "listen_port": str(PORT),
    "auth_type": "any",
    "pool_mode": "transaction",
    "default_pool_size": "4",
    "server_round_robin": "1",  # so that hardly two transactions in a row get the same connection
    "max_client_conn": "100",
}


def find_program() -> Path | None:
    """Give where pgbouncer is: installed, or where `make test-postgres` put it."""
    places = (shutil.which("pgbouncer"), Path(sys.prefix) / "pgbouncer" / "usr" / "sbin" / "pgbouncer")
    return next((Path(place) for place in places if place and Path(place).exists()), None)


class Pooler:
    """A pooler that runs until it is stopped, or until the process that started it ends."""

    def __init__(self, program: Path, server: Server, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ralph-pool-", dir="/tmp"))
        for library in program.parent.parent.glob("lib/*/lib*.so*"):
            if "pgbouncer" in program.parts[:-1]:  # not of what is installed
                shutil.copy(library, self.folder)
        copy = shutil.copy(program, self.folder)
        lines = [f"{name} = {value}" for name, value in {**_SETTINGS, **settings}.items()]
        (self.folder / "pooler.ini").write_text(
            "\n".join(
                [
                    "[databases]",
                    f"* = host={server.folder} user=postgres",
                    "[pgbouncer]",
                    f"unix_socket_dir = {self.folder}",
                    *lines,
                    "",
                ]
            )
        )
        user = None
        if os.geteuid() == 0:  # which it refuses to run as
            user = "nobody"
            os.chown(self.folder, pwd.getpwnam(user).pw_uid, -1)
        self.folder.chmod(0o755)
        self._process = subprocess.Popen(
            [copy, "-q", str(self.folder / "pooler.ini")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            user=user,
            env={**os.environ, "LD_LIBRARY_PATH": str(self.folder)},
            preexec_fn=die_with_parent,
        )
        deadline = time.monotonic() + 10
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, "the pooler did not start"
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def url(self, database: str) -> str:
        """Give the URL of a database by way of it."""
        return f"postgresql://postgres@/{database}?host={self.folder}&port={PORT}"

    def remove(self) -> None:
        """Stop it and take all it left away."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)
