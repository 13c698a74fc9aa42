"""Ctrl-C while a connection is closed ends the command with its one line."""

import subprocess
import sys

BODY = """
import sys
from sqlalchemy import make_url
from kernelkb.record.measurements.database import make_engine

def interrupt(*_):
    raise KeyboardInterrupt

engine = make_engine(make_url(f"sqlite:///{sys.argv[1]}"))
engine.connect().close()
engine.dialect.do_close = interrupt
try:
    engine.dispose()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_while_a_connection_closes_prints_no_traceback(tmp_path):
    argv = [sys.executable, "-c", BODY, str(tmp_path / "measurements.db")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)

    assert done.stdout == "interrupted\n"
    assert done.stderr == ""
