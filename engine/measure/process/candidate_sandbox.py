"""Give up rights, then become another program: the launcher of whatever runs a candidate's code.

Run as a file, by our own interpreter: ``candidate_sandbox.py POLICY.json PROGRAM
ARGUMENT…``. The policy is ``{"folder", "writable", "fork", "file_bytes", "families"}``; which
layers the kernel allowed is written to ``layers.json`` in the folder before the program begins.
Every layer is optional for the kernel and none for us: what is missing is said in the result, not
passed over.
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
from typing import Any

SandboxPolicy = dict[str, Any]

_DEVICES = ("null", "zero", "full", "random", "urandom", "dxg")
_NETWORK_FAMILIES = (2, 10, 17, 21, 40)  # IPv4, IPv6, raw packets, RDS, virtual machine sockets
# Where the argument of that number is not 0 they change somebody else: the judge, or a rival. A
# thread is bound to its core in the same way by OpenMP; the judge looks after that itself.
_SELF_ONLY_CALLS = {
    "setpriority": 1,
    "ioprio_set": 1,
    "sched_setscheduler": 0,
    "sched_setparam": 0,
    "sched_setattr": 0,
    "prlimit64": 0,
}
# Where it is another process than this one: a signal stops a judge or a rival as well.
_SIGNAL_CALLS = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_THREAD = 0x10000000, 0x40000000, 0x00010000
_DENIED_CALLS = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp"),
    *("setsid", "unshare", "setns", "mount", "umount2", "pivot_root", "chroot"),
    *("bpf", "perf_event_open", "keyctl", "add_key", "init_module", "finit_module"),
    *("kexec_load", "reboot", "swapon", "swapoff", "settimeofday", "clock_settime"),
    *("io_uring_setup", "migrate_pages", "move_pages", "tkill", "pidfd_send_signal"),
)  # fmt: skip
# Owners, modes and times of any file, which Landlock leaves open. Compilers set those of theirs.
_METADATA_CALLS = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "utimensat", "futimesat", "setxattr", "lsetxattr", "fsetxattr"),
    *("removexattr", "lremovexattr", "fremovexattr"),
)  # fmt: skip


def apply_sandbox(policy: SandboxPolicy) -> list[str]:
    """Apply every layer that this kernel allows; return their names."""
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
    """Enter a network of its own, without a single interface that is up."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def _apply_landlock(policy: SandboxPolicy) -> None:
    """Let it read and execute everything, and write only in its folder and on harmless devices."""
    from py_landlock import AccessFs, Landlock, LandlockError

    devices = [Path("/dev") / name for name in _DEVICES]
    devices += sorted(Path("/dev").glob("nvidia*"))
    use = AccessFs.READ_FILE | AccessFs.WRITE_FILE | AccessFs.IOCTL_DEV
    try:
        rules = Landlock(strict=False).allow_read("/").allow_execute("/")
        own = (policy["folder"], *policy["writable"])
        rules = rules.allow_read_write(*own)
        # Triton builds in a folder beside the one that it then renames its file into.
        rules = rules.add_path_rule(*own, access=AccessFs.REFER)
        rules = rules.add_path_rule(*(d for d in devices if d.exists()), access=use)
        # The CUDA driver names its threads there, and does not start when it cannot.
        naming = AccessFs.WRITE_FILE | AccessFs.TRUNCATE
        rules = rules.add_path_rule(f"/proc/{os.getpid()}", access=naming)
        rules.apply()
    except LandlockError as error:
        raise OSError(errno.EOPNOTSUPP, str(error)) from error


def _apply_seccomp(policy: SandboxPolicy) -> None:
    """Refuse the system calls that reach into other processes, the network or the kernel."""
    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    refuse = seccomp.ERRNO(errno.EPERM)
    for name in (*_DENIED_CALLS, *(() if policy["fork"] else _METADATA_CALLS)):
        with suppress(OSError, ValueError):  # a call that this architecture does not have
            rules.add_rule(refuse, name)
    for family in (*_NETWORK_FAMILIES, *policy["families"]):
        rules.add_rule(refuse, "socket", seccomp.Arg(0, seccomp.EQ, family))
    for name, at in _SELF_ONLY_CALLS.items():
        with suppress(OSError, ValueError):
            rules.add_rule(refuse, name, seccomp.Arg(at, seccomp.NE, 0))
    for name in _SIGNAL_CALLS:
        with suppress(OSError, ValueError):
            rules.add_rule(refuse, name, seccomp.Arg(0, seccomp.NE, os.getpid()))
    if not policy["fork"]:
        rules.add_rule(refuse, "fork")
        rules.add_rule(refuse, "vfork")
        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))
        # Its flags lie in memory, where no filter can look; libc falls back to clone.
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    rules.load()


def main(argv: list[str]) -> None:
    """Confine this process and become the program."""
    policy: SandboxPolicy = json.loads(argv[1])
    note = os.open(f"{policy['folder']}/layers.json", os.O_WRONLY | os.O_CREAT, 0o644)
    layers = apply_sandbox(policy)
    os.write(note, json.dumps(layers).encode())
    os.close(note)
    os.execv(argv[2], argv[2:])  # noqa: S606 there is no shell, and the program is ours


if __name__ == "__main__":
    main(sys.argv)
