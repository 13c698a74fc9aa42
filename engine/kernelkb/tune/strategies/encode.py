"""Places configurations in the unit cube, so that distances between them mean something."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def encode_rows(rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return (configurations, tunables that vary) coordinates from 0 to 1.

    A value is placed by its rank among the values that occur. On recorded spaces that needed fewer
    measurements than placing it by its logarithm.

    Args:
        rows: (configurations, tunables) positions of the values.
    """
    import numpy as np

    columns = []
    for column in rows.T:
        used, ranks = np.unique(column, return_inverse=True)
        if len(used) > 1:
            columns.append(ranks / (len(used) - 1))
    return np.stack(columns, axis=1) if columns else np.zeros((len(rows), 1))
