"""However a server ends, and in the middle of any work, nothing of it is left.

``benchmarks/shutdown_cleanup.py`` prints the same as a table, with the seconds that it took.
"""

import pytest
from server_shutdowns import ACTIVITIES, EXIT_CODES, shut_down_server

COMMON_ENDINGS = {
    ("compiling", "SIGTERM"),
    ("running", "cancel"),
    ("running", "SIGKILL"),
}
"""Tried by ``make test``; ``make test-slow`` ends each activity in every other way too."""


def list_endings():
    for work in ACTIVITIES:
        for how in EXIT_CODES:
            is_common = (work, how) in COMMON_ENDINGS
            yield pytest.param(work, how, marks=() if is_common else pytest.mark.slow)


@pytest.mark.parametrize(("work", "how"), list(list_endings()))
def test_nothing_is_left_behind(work, how):
    ending = shut_down_server(ACTIVITIES[work], how)

    assert ending.left == []
    assert ending.code == EXIT_CODES[how]
    if how == "SIGKILL":  # unfinished builds of the project stay for an hour
        assert not [name for name in ending.files if name.startswith("scratch")]
    else:
        assert ending.files == []
