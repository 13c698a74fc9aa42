"""The strategies by name: what one has to do, the one that draws by chance, where each stands."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from kernelkb.errors import BadValueError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kernelkb.tune.space import EnumeratedSpace


class Search(Protocol):
    """Chooses what to measure next, from the results so far.

    One thread calls it. Several configurations may be proposed before the first result comes, and
    results come in any order.
    """

    def propose(self) -> int | None:
        """Return the index of a configuration that was not proposed before; None: all were."""

    def record(self, index: int, time_us: float | None) -> None:
        """Learn the time of a configuration in microseconds; None: it failed.

        It may be one that was not proposed.
        """


class StartSearch(Protocol):
    """What starts a search: the class of a strategy."""

    def __call__(
        self,
        space: EnumeratedSpace,
        seed: int,
        *,
        known: Sequence[tuple[int, float | None]] = (),
        first: Sequence[int] = (),
        prior: NDArray[np.float64] | None = None,
    ) -> Search:
        """Start a search.

        Args:
            space: The feasible configurations.
            seed: Of the random draws; the same seed and results give the same proposals.
            known: Results of an earlier search, which need no trial.
            first: Configurations to try before all others: the default, winners of other devices
                and sizes.
            prior: (configurations, other spaces): what trials elsewhere predict, as
                ``build_prior`` returns.
        """


class RandomSearch:
    """Draws configurations by chance: what others are compared with.

    The smallest strategy there is, and so the pattern of a further one.
    """

    def __init__(
        self,
        space: EnumeratedSpace,
        seed: int,
        *,
        known: Sequence[tuple[int, float | None]] = (),
        first: Sequence[int] = (),
        prior: NDArray[np.float64] | None = None,  # noqa: ARG002 the same for all strategies
    ) -> None:
        """Draw an order of the space, of which ``first`` comes first; a prior tells it nothing."""
        import numpy as np

        begun = {index for index, _ in known} | set(first)
        drawn = np.random.default_rng(seed).permutation(len(space.rows)).tolist()
        left = [index for index in drawn if index not in begun]
        measured = {index for index, _ in known}
        self._order = left + [index for index in reversed(first) if index not in measured]

    def propose(self) -> int | None:
        """Return the index of a configuration that was not proposed before; None: all were."""
        return self._order.pop() if self._order else None

    def record(self, index: int, time_us: float | None) -> None:
        """Learn nothing."""


class Strategy(NamedTuple):
    """Where a strategy stands, and what it needs."""

    module: str
    """This one or beside it; imported when a search starts, since numpy costs 0.1 s."""
    class_name: str
    packages: tuple[str, ...]
    """Of the extra ``tune``, beside those that every search needs."""
    help: str
    uses_prior: bool = True
    """Whether what other searches predict is worth computing, which takes seconds."""

    def load(self) -> StartSearch:
        """Return the class, which needs its packages."""
        module = import_module(f"{__package__}.{self.module}")
        return cast(StartSearch, getattr(module, self.class_name))


DEFAULT_STRATEGY = "model"
STRATEGIES = {
    "model": Strategy("model_search", "ModelSearch", ("threadpoolctl",), "a Gaussian process"),
    "tpe": Strategy("tpe_search", "TpeSearch", ("optuna",), "Optuna's"),
    "random": Strategy("table", "RandomSearch", (), "to record a whole space", uses_prior=False),
}
"""A further one is a module here and a line of this table: the options of ``kb tune``, the check
of its packages and the benchmark of searches read it."""


def find_strategy(name: str) -> Strategy:
    """Return a strategy by its name.

    Raises:
        BadValueError: There is no such strategy.
    """
    if name not in STRATEGIES:
        *names, last = STRATEGIES
        raise BadValueError(f"no strategy {name!r}; there are {', '.join(names)} and {last}")
    return STRATEGIES[name]
