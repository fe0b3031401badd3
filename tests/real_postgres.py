"""A real PostgreSQL server in a folder of its own, which only this test session can reach."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "opensesame-4711"
_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
_UNPRIVILEGED = ("postgres", "nobody")


@dataclass
class PostgresServer:
    """A server that can be stopped and started again."""

    programs: Path
    folder: Path
    account: dict[str, Any]
    """Of subprocess: who runs it, as the server refuses root."""
    databases: Iterator[int]

    def new_database(self) -> str:
        """Return the address of an empty database, its password in it."""
        import psycopg  # of what few tests need, for all that read this file

        name = f"share{next(self.databases)}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        return self._address(name)

    def start(self) -> None:
        options = f"-c listen_addresses= -c fsync=off -k {self.folder}"
        self.run("pg_ctl", "-w", "-D", "data", "-l", "server.log", "-o", options, "start")

    def stop(self) -> None:
        """Take it down as a crash does, its clients' connections with it."""
        self.run("pg_ctl", "-w", "-D", "data", "-m", "immediate", "stop")

    def run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [self.programs / program, *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **self.account,
        )
        assert done.returncode == 0, done.stderr

    def _address(self, database: str) -> str:
        return f"postgresql://tunekit:{PASSWORD}@/{database}?host={self.folder}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    programs = _programs()
    if programs is None:
        if os.environ.get("TUNEKIT_NEEDS_POSTGRES"):
            pytest.fail("no PostgreSQL server is installed, and TUNEKIT_NEEDS_POSTGRES asks for one")
        pytest.skip("no PostgreSQL server is installed")
    with _own_folder() as (folder, account):
        server = PostgresServer(programs, folder, account, count())
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        server.run(
            "initdb",
            "-D",
            "data",
            "-U",
            "tunekit",
            "--pwfile",
            "password",
            "-A",
            "scram-sha-256",
            "--no-sync",
        )
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _programs() -> Path | None:
    found = [path.parent for pattern in _FOLDERS for path in Path("/").glob(f"{pattern[1:]}/initdb")]
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    return max(found, default=None)


@contextmanager
def _own_folder() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Make a folder that the server's account may use; its path is short, as a socket's has to be."""
    is_root = os.geteuid() == 0
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp" if is_root else None))
    account: dict[str, Any] = {}
    if is_root:
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
        entry = next(known[name] for name in _UNPRIVILEGED if name in known)
        account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        os.chown(folder, entry.pw_uid, entry.pw_gid)
    try:
        yield folder, account
    finally:
        shutil.rmtree(folder)
