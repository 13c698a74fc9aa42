"""Has candidates run in the sandbox of an older Linux: parts of it are reported absent.

The sandbox is a program; a second one that prepares its own process and then runs it takes its
place. A system call that the older Linux lacks is refused there by a filter, as in a container.
"""

from pathlib import Path

from kernelkb.measure import job_specs
from kernelkb.measure.process import candidate_sandbox

_REFUSE = """
import pyseccomp
older = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
for call in {calls}:
    older.add_rule(pyseccomp.ERRNO({error}), call)
older.load()
"""
_ABI = "import py_landlock.landlock\npy_landlock.landlock.get_abi_version = lambda: {abi}\n"
_NO_SECCOMP = """
import pyseccomp
def load(self):
    raise OSError(22, "no filters")
pyseccomp.SyscallFilter.load = load
"""
_EPERM, _ENOSYS = 1, 38
_LANDLOCK_CALLS = [444, 445, 446]

KERNELS = {
    "6.8, without a signal scope": _ABI.format(abi=4),
    "6.1, without truncate": _ABI.format(abi=2),
    "5.15, without renames": _ABI.format(abi=1),
    "5.10, without Landlock": _REFUSE.format(calls=_LANDLOCK_CALLS, error=_ENOSYS),
    "5.10 in a container": _REFUSE.format(calls=_LANDLOCK_CALLS, error=_ENOSYS)
    + _REFUSE.format(calls=["unshare"], error=_EPERM),
    "without seccomp": _NO_SECCOMP,
}
"""What the older kernel lacks, as the head of a Python program."""


def pretend_kernel(monkeypatch, folder: Path, name: str) -> None:
    """Let the sandboxes of this test start as on an older kernel.

    Args:
        monkeypatch: The fixture of pytest.
        folder: Where the program is written.
        name: A key of ``KERNELS``.
    """
    sandbox = candidate_sandbox.__file__
    program = folder / "older_kernel.py"
    run = f"import runpy\nrunpy.run_path({sandbox!r}, run_name='__main__')\n"
    program.write_text(KERNELS[name] + run)
    monkeypatch.setattr(job_specs, "_SANDBOX_SCRIPT", program)
    monkeypatch.setattr(candidate_sandbox, "__file__", str(program))
