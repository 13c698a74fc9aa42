"""Restrict this process (network, files, system calls), then exec a candidate's runner in it.

Run as a file, by our own interpreter, once for each candidate:
``candidate_sandbox.py POLICY.json PROGRAM ARGUMENT…``. The names of the layers that this kernel of
Linux applied are written to ``layers.json`` in the candidate's folder before the program starts. A
layer that the kernel lacks does not stop the run: the result and ``kb env`` name it as absent.

Start-up time counts here: the module level imports no ``subprocess`` and no ``tempfile``.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

LAYERS = ("limits", "network namespace", "capabilities", "landlock", "signal scope", "seccomp")
"""Every layer, in the order in which ``apply_sandbox`` applies them.

``signal scope`` is the part of Landlock that keeps signals in, from Linux 6.12 on.
"""

_DETECTION_TIMEOUT_S = 20.0
"""Chosen: many times what starting Python and ``/bin/true`` takes."""
_DETECTION_FILE_BYTES = 2**20
_SYSTEM_DEVICES = ("null", "zero", "full", "random", "urandom", "dxg")
"""Below /dev; dxg is the GPU of WSL."""
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
"""Flags of unshare(2), from linux/sched.h."""
_KEPT_CAPABILITIES = frozenset((1, 2))
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: where root runs us, a project may be another user's."""
_PR_CAPBSET_DROP = 24
_CAPABILITY_VERSION = 0x20080522
_CAPABILITY_LIMIT = 64
_REFER_ABI, _TRUNCATE_ABI, _SCOPE_ABI = 2, 3, 6
"""Of Landlock: renames between folders (Linux 5.19), truncate (6.2), scopes of signals (6.12)."""
_MOST_LISTINGS = 50
"""Chosen: in a whole run of the tests, hundreds of candidates, one listing was out of date."""


class SandboxPolicy(TypedDict):
    """What a candidate's process may do; passed as JSON on the command line."""

    folder: str
    """Its own folder, which it may write."""
    writable: list[str]
    """Other folders that it may write, such as Triton's cache."""
    fork: bool
    """Whether it may start processes."""
    file_bytes: int
    """Largest file that it may write (RLIMIT_FSIZE), bytes."""
    families: list[int]
    """Socket families (AF_*) refused besides those of the network."""
    hidden: list[str]
    """Folders in which it may not read files: those of the judge, and records, whose locks would
    make others wait."""
    readable: list[str]
    """Folders in hidden ones that it may read all the same: its build, its kernel."""


def apply_sandbox(policy: SandboxPolicy) -> list[str]:
    """Apply every layer that this kernel supports to this process; return their names."""
    _set_resource_limits(policy)
    layers = ["limits"]
    for apply in (_enter_network_namespace, _drop_capabilities, _apply_landlock, _apply_seccomp):
        with suppress(OSError, ImportError, RuntimeError):
            layers += apply(policy)
    return layers


def _set_resource_limits(policy: SandboxPolicy) -> None:
    """Limit files, and take back what an administrator may have allowed: priorities, queues."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (policy["file_bytes"], policy["file_bytes"]))
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(limit, (0, 0))
    for limit in (resource.RLIMIT_NICE, resource.RLIMIT_RTPRIO):
        resource.setrlimit(limit, (0, 0))


def _enter_network_namespace(_policy: SandboxPolicy) -> list[str]:
    """Enter a new network namespace, in which no interface is up."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    return ["network namespace"]


def _drop_capabilities(_policy: SandboxPolicy) -> list[str]:
    """Let the program that we exec have no privileges of root, save reading others' files.

    Without a user namespace, root's candidate would else set real-time priorities and could read
    the judge's memory.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    sets[2] = sets[5] = 0  # the inheritable ones, which exec would keep
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")
    dropped = [number for number in range(_CAPABILITY_LIMIT) if number not in _KEPT_CAPABILITIES]
    for number in dropped:
        if libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) and _has_privileges(sets):
            if ctypes.get_errno() == errno.EINVAL:  # beyond the last that this kernel has
                break
            raise OSError(ctypes.get_errno(), "capset")
    return ["capabilities"]


def _has_privileges(sets: ctypes.Array[ctypes.c_uint32]) -> bool:
    """Whether the permitted set of capget(2) is not empty."""
    return bool(sets[1] or sets[4])


def _apply_landlock(policy: SandboxPolicy) -> list[str]:
    """Allow reading what is not hidden, writing only its own folders and devices."""
    from py_landlock import LandlockError

    try:
        for _ in range(_MOST_LISTINGS):
            # Rules are made of what was listed: one whose file has gone takes all others along.
            with suppress(FileNotFoundError):
                return _restrict_files(policy)
    except LandlockError as error:
        raise OSError(errno.EOPNOTSUPP, str(error)) from error
    sys.exit("the sandbox was not applied: files around the candidate's come and go too quickly")


def _restrict_files(policy: SandboxPolicy) -> list[str]:
    """Apply Landlock's rules for what is there now.

    Raises:
        FileNotFoundError: A file went after it was listed; nothing is applied.
        LandlockError: This kernel has no Landlock, or a folder of the policy is missing.
    """
    from py_landlock import AccessFs, Landlock, LandlockError

    devices = [Path("/dev") / name for name in _SYSTEM_DEVICES]
    devices += sorted(Path("/dev").glob("nvidia*"))
    device_access = AccessFs.READ_FILE | AccessFs.WRITE_FILE | AccessFs.IOCTL_DEV
    rules = Landlock(strict=False)
    if policy["fork"] and rules.abi_version < _REFER_ABI:
        return []  # it refuses renames between folders, without which Triton does not build
    rules = rules.add_path_rule("/", access=AccessFs.READ_DIR)
    for visible in (*_list_visible(policy.get("hidden", [])), *policy.get("readable", [])):
        with suppress(LandlockError, OSError):  # it has gone, or may not be opened
            access = AccessFs.READ_FILE | AccessFs.EXECUTE
            rules = rules.add_path_rule(visible, access=access)
    folders = (policy["folder"], *policy["writable"])
    rules = rules.allow_read_write(*folders).allow_execute(*folders)
    # Triton builds in one folder and renames its file into another (REFER).
    rules = rules.add_path_rule(*folders, access=AccessFs.REFER)
    rules = rules.add_path_rule(*(d for d in devices if d.exists()), access=device_access)
    # The CUDA driver writes the names of its threads here, and fails to start if it cannot.
    write = AccessFs.WRITE_FILE | AccessFs.TRUNCATE
    rules = rules.add_path_rule(f"/proc/{os.getpid()}", access=write)
    rules.apply()
    return ["landlock", "signal scope"] if rules.abi_version >= _SCOPE_ABI else ["landlock"]


def _list_visible(hidden: Sequence[str]) -> Iterator[str]:
    """Yield paths that hold together all files but the hidden ones.

    Landlock allows by folders and cannot except one: so each folder above a hidden one is replaced
    by what is in it now. Links are left out, since Landlock looks at what they lead to. Of a folder
    that may be entered and not listed, only the way to the hidden ones is known.
    """
    real = {os.path.realpath(folder) for folder in hidden}
    pending = ["/"]
    while pending:
        path = pending.pop()
        if path in real:
            continue
        start = path.rstrip("/") + "/"
        below = [folder for folder in real if folder.startswith(start)]
        if not below:
            yield path
            continue
        try:
            with os.scandir(path) as entries:
                pending += [entry.path for entry in entries if not entry.is_symlink()]
        except OSError:
            pending += {start + folder.removeprefix(start).split("/")[0] for folder in below}


def find_landlock_abi() -> int | None:
    """Return the version of this kernel's Landlock; None where it has none."""
    try:
        from py_landlock import Landlock, LandlockError
    except ImportError:
        return None
    try:
        return int(Landlock(strict=False).abi_version)
    except LandlockError:
        return None


def _apply_seccomp(policy: SandboxPolicy) -> list[str]:
    """Refuse system calls that reach other processes, the network or kernel interfaces."""
    from kernelkb.measure.process.system_call_filter import apply_system_call_filter

    apply_system_call_filter(
        may_fork=policy["fork"],
        families=policy["families"],
        refuse_truncate=(find_landlock_abi() or 0) < _TRUNCATE_ABI,
    )
    return ["seccomp"]


def detect_layers() -> tuple[list[str], list[str]]:
    """Run ``/bin/true`` in the sandbox; return the layers that were applied, and those absent."""
    import subprocess

    from kernelkb.measure.process.subprocesses import scratch_folder

    with scratch_folder() as folder:
        policy = SandboxPolicy(
            folder=str(folder),
            writable=[],
            fork=False,
            file_bytes=_DETECTION_FILE_BYTES,
            families=[],
            hidden=[],
            readable=[],
        )
        argv = [sys.executable, "-P", __file__, json.dumps(policy), "/bin/true"]
        try:
            subprocess.run(argv, capture_output=True, check=False, timeout=_DETECTION_TIMEOUT_S)
            active = json.loads((folder / "layers.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, subprocess.TimeoutExpired):
            active = []
    return active, [layer for layer in LAYERS if layer not in active]


def main(argv: list[str]) -> None:
    """Apply the policy ``argv[1]`` to this process, then exec the program ``argv[2:]``."""
    policy: SandboxPolicy = json.loads(argv[1])
    report = os.open(f"{policy['folder']}/layers.json", os.O_WRONLY | os.O_CREAT, 0o644)
    layers = apply_sandbox(policy)
    os.write(report, json.dumps(layers).encode())
    os.close(report)
    os.execv(argv[2], argv[2:])  # noqa: S606 there is no shell, and the program is ours


if __name__ == "__main__":
    main(sys.argv)
