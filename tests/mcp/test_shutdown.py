"""However a server ends, and in the middle of any work, nothing of it is left.

``benchmarks/shutdown_cleanup.py`` prints the same as a table, with the seconds that it took.
"""

import pytest
from server_shutdowns import ACTIVITIES, EXIT_CODES, shut_down_server


@pytest.mark.parametrize("how", EXIT_CODES)
@pytest.mark.parametrize("work", ACTIVITIES)
def test_nothing_is_left_behind(work, how):
    ending = shut_down_server(ACTIVITIES[work], how)

    assert ending.left == []
    assert ending.code == EXIT_CODES[how]
    if how != "SIGKILL":  # of the server itself: nothing remains that could remove its files
        assert ending.files == []
