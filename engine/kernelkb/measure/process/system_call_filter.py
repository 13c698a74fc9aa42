"""System calls that a candidate's process may not make (seccomp).

Refused is what reaches another process, what outlives the process or runs while it is stopped, and
what changes the machine. A refused call returns EPERM; the candidate goes on. Calls on itself stay
allowed: threads, their cores (OpenMP binds them), ``membarrier``, ``rseq``, memory policies.

Loaded by ``candidate_sandbox.py``, whose start-up time counts: imports only what it needs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_INT_BITS = 0xFFFFFFFF
"""The bits of an argument that Linux reads as an int; a filter sees 64, of which the rest lie."""
_REFUSED_CALLS = (
    # The memory, files and scheduling of other processes.
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease"),
    *("pidfd_getfd", "pidfd_send_signal", "tkill", "kcmp", "migrate_pages", "move_pages"),
    *("setsid", "unshare", "setns"),
    # State that outlives a process, outside every file system that Landlock guards.
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl"),
    *("mq_open", "mq_unlink", "mq_notify", "mq_timedsend", "mq_timedreceive", "mq_getsetattr"),
    *("keyctl", "add_key", "request_key"),
    # Work that goes on while the process is stopped. Interval timers fire then before Linux 6.13.
    *("timer_create", "io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup"),
    # Memory that makes its reader wait for the process, or that the judge cannot read.
    *("userfaultfd", "memfd_secret"),
    # The machine: mounts, quotas, clocks, modules, counters.
    *("mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_by_handle_at"),
    *("quotactl", "quotactl_fd", "swapon", "swapoff", "acct", "sethostname", "setdomainname"),
    *("settimeofday", "clock_settime", "adjtimex", "clock_adjtime"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
    *("bpf", "perf_event_open", "fanotify_init", "ioperm", "iopl"),
)
_METADATA_CALLS = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "utimensat", "futimesat", "setxattr", "lsetxattr", "fsetxattr"),
    *("removexattr", "lremovexattr", "fremovexattr", "setxattrat", "removexattrat"),
    "file_setattr",
)
"""Change a file's owner, mode, times or attributes, which Landlock does not restrict.

Allowed where the candidate may fork, since the compilers that it then runs (Triton) use them.
"""
_NUMBERS = {
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
    "open_tree_attr": 467,
    "file_setattr": 469,
}
"""System calls that a libseccomp older than the kernel may not know; the same on all machines."""
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
with it, by their thread ids; ``_list_ancestor_threads`` has the ids that it may not name.
"""
_TARGET_KINDS = {"setpriority": 0, "ioprio_set": 1}
"""System call → the one first argument that is allowed: a process, not its group or its user."""
_REFUSED_COMMANDS = {
    # F_SETOWN, F_SETSIG, F_SETOWN_EX; F_SETLEASE, F_NOTIFY: who is signalled, and when. An owner
    # of a file gets any signal without a call that sends signals.
    ("fcntl", 1): (8, 10, 15, 1024, 1026),
    # FIOSETOWN, SIOCSPGRP: as F_SETOWN. FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY,
    # FS_IOC_SET_ENCRYPTION_POLICY: change a file that is open for reading only.
    ("ioctl", 1): (0x8901, 0x8902, 0x40086602, 0x401C5820, 0x40806685, 0x800C6613),
    # MADV_REMOVE, see ``_FALLOCATE_REMOVALS``.
    ("madvise", 2): (9,),
    # PR_SET_DUMPABLE, PR_SET_PTRACER: who reads its memory. PR_SET_CHILD_SUBREAPER: whose children
    # its orphans become. PR_SCHED_CORE: who may run beside it on one core.
    ("prctl", 0): (4, 0x59616D61, 36, 62),
}
"""System call and index of its command → the commands that are refused."""
_FALLOCATE_REMOVALS = (0x02, 0x08, 0x10, 0x20)
"""PUNCH_HOLE, COLLAPSE_RANGE, ZERO_RANGE, INSERT_RANGE of linux/falloc.h: they take pages of shared
memory from all processes that have mapped it. A rival would be timed with its page faults."""
_SIGNAL_CALLS = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
"""Allowed for our own process id only: a signal can stop the judge or a rival."""
_PERSONALITY_QUERY = 0xFFFFFFFF
_ADDRESS_INDEX = 4
"""Of the arguments of sendto(2)."""
_NETWORK_FAMILIES = (2, 10, 17, 21, 40)
"""AF_INET, AF_INET6, AF_PACKET, AF_RDS, AF_VSOCK of linux/socket.h."""
_AF_UNIX, _TYPE_BITS, _DATAGRAM_TYPES = 1, 0xF, (2, 3)
"""SOCK_DGRAM and SOCK_RAW of linux/socket.h, which is the same there; the other bits are flags."""
_CLONE_THREAD, _CLONE_PARENT, _CLONE_VM, _CLONE_VFORK = 0x00010000, 0x00008000, 0x100, 0x4000
_CLONE_NAMESPACES = (
    *(0x00020000, 0x02000000, 0x04000000, 0x08000000),  # NEWNS, NEWCGROUP, NEWUTS, NEWIPC
    *(0x10000000, 0x20000000, 0x40000000),  # NEWUSER, NEWPID, NEWNET
)
"""Flags of clone(2), from linux/sched.h."""
_MAX_ANCESTOR_THREADS = 300
"""A filter has room for 4096 instructions, of which each thread takes about four."""


def apply_system_call_filter(
    *, may_fork: bool, families: Iterable[int], refuse_truncate: bool
) -> None:
    """Load the filter into this process; it holds for all that this process starts.

    Args:
        may_fork: Whether it may start processes.
        families: Socket families (AF_*) refused besides those of the network.
        refuse_truncate: Refuse ``truncate`` by path, for a Landlock that does not restrict it.

    Raises:
        OSError: The kernel has no seccomp filters.
        ImportError, RuntimeError: libseccomp is missing.
    """
    filters = _Filter()
    for name in (*_REFUSED_CALLS, *(() if may_fork else _METADATA_CALLS)):
        filters.refuse(name)
    if refuse_truncate:
        filters.refuse("truncate")
    _restrict_sockets(filters, families)
    for (name, index), commands in _REFUSED_COMMANDS.items():
        for command in commands:
            filters.refuse_equal(name, index, command)
    for name, index in _TARGET_ARGUMENTS.items():
        filters.refuse_other(name, index, 0)
    for name, kind in _TARGET_KINDS.items():
        filters.refuse_other(name, 0, kind)
    for name in _SIGNAL_CALLS:
        filters.refuse_other(name, 0, os.getpid())
    for mode in _FALLOCATE_REMOVALS:
        filters.refuse_flags("fallocate", mode, mode, index=1)
    filters.refuse_other("personality", 0, _PERSONALITY_QUERY)
    for thread in _list_ancestor_threads():
        filters.refuse_equal("sched_setaffinity", 0, thread)
    _restrict_clone(filters, may_fork=may_fork)
    filters.load()


def name_system_call(number: int) -> str:
    """Return how a system call of this machine is named: by its number where that is not known."""
    try:
        import pyseccomp

        name = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, number)
    except (ImportError, RuntimeError, ValueError, OSError):
        name = None
    return name.decode("ascii") if isinstance(name, bytes) else f"system call {number}"


def _restrict_sockets(filters: _Filter, families: Iterable[int]) -> None:
    """Refuse some families, and sockets that have a name."""
    for family in (*_NETWORK_FAMILIES, *families):
        filters.refuse_equal("socket", 0, family)
    if not _uses_mps():
        # Named sockets of this machine: of containers, keys, the desktop. A socket of its own
        # needs neither, and the CUDA driver has some.
        filters.refuse("connect")
        filters.refuse_other("sendto", _ADDRESS_INDEX, 0)
        filters.refuse_datagram_sockets()  # sendmsg's address is in memory, out of a filter's sight


def _restrict_clone(filters: _Filter, *, may_fork: bool) -> None:
    """Refuse new namespaces, siblings as children, and processes where none may be started."""
    # A filter cannot read clone3's flags, which are passed in memory; libc falls back to clone.
    filters.refuse("clone3", errno.ENOSYS)
    for flag in (_CLONE_PARENT, *_CLONE_NAMESPACES):
        filters.refuse_flag("clone", flag, is_set=True)
    # Of the processes that share memory only vfork's, whose parent waits: another would go on with
    # the parent's work while that is stopped.
    filters.refuse_flags("clone", _CLONE_VM | _CLONE_VFORK | _CLONE_THREAD, _CLONE_VM)
    if not may_fork:
        filters.refuse("fork")
        filters.refuse("vfork")
        filters.refuse_flag("clone", _CLONE_THREAD, is_set=False)


def _uses_mps() -> bool:
    """Return whether programs reach the GPU through CUDA's multi-process service: by a socket."""
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # noqa: S108 its default
    return Path(folder).exists()


class _Filter:
    """A filter of libseccomp that allows what no rule refuses."""

    def __init__(self) -> None:
        import pyseccomp

        self._seccomp: Any = pyseccomp
        self._rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)

    def refuse(self, name: str, error: int = errno.EPERM, *conditions: Any) -> None:
        """Refuse a call; one that this machine does not have is left out."""
        number = self._seccomp.resolve_syscall(self._seccomp.Arch.NATIVE, name)
        if number < 0:
            number = _NUMBERS.get(name, number)
        if number >= 0:
            self._rules.add_rule(self._seccomp.ERRNO(error), number, *conditions)

    def refuse_equal(self, name: str, index: int, value: int) -> None:
        """Refuse a call whose int argument has a value."""
        condition = self._seccomp.Arg(index, self._seccomp.MASKED_EQ, _INT_BITS, value)
        self.refuse(name, errno.EPERM, condition)

    def refuse_other(self, name: str, index: int, value: int) -> None:
        """Refuse a call whose argument has any other value."""
        self.refuse(name, errno.EPERM, self._seccomp.Arg(index, self._seccomp.NE, value))

    def refuse_flag(self, name: str, flag: int, *, is_set: bool) -> None:
        """Refuse a call by one bit of its first argument."""
        self.refuse_flags(name, flag, flag if is_set else 0)

    def refuse_flags(self, name: str, mask: int, wanted: int, *, index: int = 0) -> None:
        """Refuse a call whose argument has, of the bits of a mask, the wanted ones only."""
        condition = self._seccomp.Arg(index, self._seccomp.MASKED_EQ, mask, wanted)
        self.refuse(name, errno.EPERM, condition)

    def refuse_datagram_sockets(self) -> None:
        """Refuse sockets of this machine that need no connection."""
        masked_equal, arg = self._seccomp.MASKED_EQ, self._seccomp.Arg
        for name in ("socket", "socketpair"):
            for kind in _DATAGRAM_TYPES:
                family = arg(0, masked_equal, _INT_BITS, _AF_UNIX)
                self.refuse(name, errno.EPERM, family, arg(1, masked_equal, _TYPE_BITS, kind))

    def load(self) -> None:
        self._rules.load()


def _list_ancestor_threads() -> list[int]:
    """Return the thread ids of the judge, its supervisor, ``kb`` and what started it.

    Threads that start later are not among them: each process restores its own cores.
    """
    threads: list[int] = []
    for pid in _list_ancestors():
        with suppress(OSError):
            threads += [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    return threads[:_MAX_ANCESTOR_THREADS]


def _list_ancestors() -> Iterator[int]:
    """Yield the pids of our parent, its parent and so on, without init."""
    pid = os.getppid()
    while pid > 1:
        yield pid
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return
        pid = int(fields[1])
