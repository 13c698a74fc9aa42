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
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

LAYERS = ("limits", "network namespace", "landlock", "seccomp")
"""Every layer, in the order in which ``apply_sandbox`` applies them."""

_DETECTION_TIMEOUT_S = 20.0
"""Chosen: many times what starting Python and ``/bin/true`` takes."""
_DETECTION_FILE_BYTES = 2**20
_SYSTEM_DEVICES = ("null", "zero", "full", "random", "urandom", "dxg")
"""Below /dev; dxg is the GPU of WSL."""
_NETWORK_FAMILIES = (2, 10, 17, 21, 40)
"""AF_INET, AF_INET6, AF_PACKET, AF_RDS, AF_VSOCK of linux/socket.h."""
_TARGET_ARGUMENTS = {
    "setpriority": 1,
    "ioprio_set": 1,
    "sched_setscheduler": 0,
    "sched_setparam": 0,
    "sched_setattr": 0,
    "prlimit64": 0,
}
"""System call → index of the argument that names its target; any but 0 (ourselves) is refused.

Another target is the judge or a rival. ``sched_setaffinity`` is not here: OpenMP binds its threads
with it, by their thread ids; the judge restores affinities itself.
"""
_TARGET_KINDS = {"setpriority": 0, "ioprio_set": 1}
"""System call → the one first argument that is allowed: a process, not its group or its user."""
_OWNER_COMMANDS = {"fcntl": (8, 10, 15), "ioctl": (0x8901, 0x8902)}
"""F_SETOWN, F_SETSIG, F_SETOWN_EX; FIOSETOWN, SIOCSPGRP: who is signalled when a file is ready.

They send any signal to any process without a call that sends signals.
"""
_INT_BITS = 0xFFFFFFFF
"""The bits of an argument that Linux reads as an int; a filter sees 64, of which the rest lie."""
_SIGNAL_CALLS = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
"""Allowed for our own process id only: a signal can stop the judge or a rival."""
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_THREAD = 0x10000000, 0x40000000, 0x00010000
"""Flags of clone(2), from linux/sched.h."""
_DENIED_CALLS = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp"),
    *("setsid", "unshare", "setns", "mount", "umount2", "pivot_root", "chroot"),
    *("bpf", "perf_event_open", "keyctl", "add_key", "init_module", "finit_module"),
    *("kexec_load", "reboot", "swapon", "swapoff", "settimeofday", "clock_settime"),
    *("io_uring_setup", "migrate_pages", "move_pages", "tkill", "pidfd_send_signal"),
)  # fmt: skip
_METADATA_CALLS = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "utimensat", "futimesat", "setxattr", "lsetxattr", "fsetxattr"),
    *("removexattr", "lremovexattr", "fremovexattr"),
)  # fmt: skip
"""Change a file's owner, mode or times, which Landlock does not restrict.

Allowed where the candidate may fork, since the compilers that it then runs (Triton) use them.
"""


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


def apply_sandbox(policy: SandboxPolicy) -> list[str]:
    """Apply every layer that this kernel supports to this process; return their names."""
    _set_resource_limits(policy)
    layers = ["limits"]
    for name, apply in (
        ("network namespace", _enter_network_namespace),
        ("landlock", _apply_landlock),
        ("seccomp", _apply_seccomp),
    ):
        with suppress(OSError, ImportError, RuntimeError):
            apply(policy)
            layers.append(name)
    return layers


def _set_resource_limits(policy: SandboxPolicy) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (policy["file_bytes"], policy["file_bytes"]))


def _enter_network_namespace(_policy: SandboxPolicy) -> None:
    """Enter a new network namespace, in which no interface is up."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def _apply_landlock(policy: SandboxPolicy) -> None:
    """Allow reading and executing everything, writing only its own folders and devices."""
    from py_landlock import AccessFs, Landlock, LandlockError

    devices = [Path("/dev") / name for name in _SYSTEM_DEVICES]
    devices += sorted(Path("/dev").glob("nvidia*"))
    device_access = AccessFs.READ_FILE | AccessFs.WRITE_FILE | AccessFs.IOCTL_DEV
    try:
        rules = Landlock(strict=False).allow_read("/").allow_execute("/")
        folders = (policy["folder"], *policy["writable"])
        rules = rules.allow_read_write(*folders)
        # Triton builds in one folder and renames its file into another (REFER).
        rules = rules.add_path_rule(*folders, access=AccessFs.REFER)
        rules = rules.add_path_rule(*(d for d in devices if d.exists()), access=device_access)
        # The CUDA driver writes the names of its threads here, and fails to start if it cannot.
        write = AccessFs.WRITE_FILE | AccessFs.TRUNCATE
        rules = rules.add_path_rule(f"/proc/{os.getpid()}", access=write)
        rules.apply()
    except LandlockError as error:
        raise OSError(errno.EOPNOTSUPP, str(error)) from error


def _apply_seccomp(policy: SandboxPolicy) -> None:
    """Refuse system calls that reach other processes, the network or kernel interfaces."""
    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    refuse = seccomp.ERRNO(errno.EPERM)
    for name in (*_DENIED_CALLS, *(() if policy["fork"] else _METADATA_CALLS)):
        with suppress(OSError, ValueError):  # a call that this architecture does not have
            rules.add_rule(refuse, name)
    for family in (*_NETWORK_FAMILIES, *policy["families"]):
        rules.add_rule(refuse, "socket", seccomp.Arg(0, seccomp.MASKED_EQ, _INT_BITS, family))
    for name, index in _TARGET_ARGUMENTS.items():
        with suppress(OSError, ValueError):
            rules.add_rule(refuse, name, seccomp.Arg(index, seccomp.NE, 0))
    for name, kind in _TARGET_KINDS.items():
        with suppress(OSError, ValueError):
            rules.add_rule(refuse, name, seccomp.Arg(0, seccomp.NE, kind))
    for name, commands in _OWNER_COMMANDS.items():
        for command in commands:
            rules.add_rule(refuse, name, seccomp.Arg(1, seccomp.MASKED_EQ, _INT_BITS, command))
    for name in _SIGNAL_CALLS:
        with suppress(OSError, ValueError):
            rules.add_rule(refuse, name, seccomp.Arg(0, seccomp.NE, os.getpid()))
    if not policy["fork"]:
        rules.add_rule(refuse, "fork")
        rules.add_rule(refuse, "vfork")
        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))
        # A filter cannot read clone3's flags, which are passed in memory; libc falls back to clone.
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    rules.load()


def detect_layers() -> tuple[list[str], list[str]]:
    """Run ``/bin/true`` in the sandbox; return the layers that were applied, and those absent."""
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="kernelkb-") as folder:
        policy = SandboxPolicy(
            folder=folder, writable=[], fork=False, file_bytes=_DETECTION_FILE_BYTES, families=[]
        )
        argv = [sys.executable, "-P", __file__, json.dumps(policy), "/bin/true"]
        try:
            subprocess.run(argv, capture_output=True, check=False, timeout=_DETECTION_TIMEOUT_S)
            active = json.loads((Path(folder) / "layers.json").read_text(encoding="utf-8"))
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
