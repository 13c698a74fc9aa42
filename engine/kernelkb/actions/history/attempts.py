"""Shows the attempts at a kernel: their tree, and the best of them."""

from __future__ import annotations

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import BadValueError, NextStep
from kernelkb.loading.kernels import load_kernel
from kernelkb.model.records.attempt import AttemptId
from kernelkb.record.attempts.store import AttemptStore, open_attempts
from kernelkb.record.attempts.stuck import find_stuck
from kernelkb.record.attempts.tree import AttemptTree, build_tree
from kernelkb.record.attempts.views import AttemptLog

MAX_SHOWN = 50
"""Attempts that are read for a tree, the newest."""
_MAX_OLDER = 10
"""States before an older best attempt that are read, too."""


def load_attempt_log(kernel: str, limit: int = MAX_SHOWN) -> AttemptLog:
    """Return the attempts at a kernel.

    Args:
        kernel: Its name.
        limit: Most attempts to read, the newest.

    Raises:
        UnknownNameError: There is no such kernel.
        DatabaseError: The database cannot be read.
    """
    with open_attempts(get_project_path(), writes=False) as store:
        count = store.count(kernel)
        if not count:
            load_kernel(kernel, get_project_path())
        tree = load_tree(store, kernel, limit)
    return AttemptLog(kernel, tree, count, find_stuck(tree))


def load_tree(store: AttemptStore, kernel: str, limit: int = MAX_SHOWN) -> AttemptTree:
    """Return the newest attempts at a kernel as a tree, with the best one and those before it."""
    found = {one.id: one for one in store.list_newest(kernel, limit)}
    tree = build_tree(found.values(), store.list_events(found))
    if tree.place is None or len(found) < limit:
        return tree
    fastest = store.list_fastest(kernel, tree.place.workload, tree.place.device)
    older = [event.attempt for event in fastest if event.attempt not in found]
    if not older:
        return tree
    found |= store.get_many([*older, *store.list_ancestors(older[0])[:_MAX_OLDER]])
    return build_tree(found.values(), store.list_events(found))


def find_best_attempt(store: AttemptStore, kernel: str) -> AttemptId:
    """Return the fastest valid attempt at a kernel.

    Raises:
        UnknownNameError: There is no such kernel.
        BadValueError: None was timed.
    """
    best = load_tree(store, kernel).best
    if best is None:
        if not store.count(kernel):
            load_kernel(kernel, get_project_path())
        times_one = NextStep("bench", {"kernel": kernel}, "times one")
        raise BadValueError(f"no valid time of {kernel} is in its history", times_one)
    return best
