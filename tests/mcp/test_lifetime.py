"""However a server ends, in the middle of whatever, nothing of it is left.

``benchmarks/shutdown_cleanup.py`` prints the same as a table, with the seconds that it took.
"""

import pytest
from server_shutdowns import CODES, WORKS, run


@pytest.mark.parametrize("how", CODES)
@pytest.mark.parametrize("work", WORKS)
def test_nothing_is_left_behind(work, how):
    ending = run(WORKS[work], how)

    assert ending.left == []
    assert ending.code == CODES[how]
    if how != "SIGKILL":  # of the server itself: its files stay, as nobody is there to remove them
        assert ending.files == []
