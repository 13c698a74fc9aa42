"""Launches that the host chooses by a size: ``if (n == 8) k<8><<<..>>>(..); else if ..``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.cpp.functions import SourceFacts, build_function
from kernelkb.scaffold.cpp.syntax import Declaration, LaunchSite, bind_arguments, get_text
from kernelkb.scaffold.draft import Function, SizeLimit

_TEST = re.compile(r"\(*\s*([A-Za-z_][\w.>()-]*?)\s*(==|<=|<)\s*(\w+)\s*\)*")
_REVERSED = re.compile(r"\(*\s*(\w+)\s*(==|>=|>)\s*([A-Za-z_][\w.>()-]*?)\s*\)*")
_TURNED = {"==": "==", ">=": "<=", ">": "<"}


class SizeTest(NamedTuple):
    """One condition of a launch."""

    size: str
    """As the host writes it: ``n``, ``shape.W``."""
    sign: str
    """``==``, ``<=`` or ``<``."""
    number: int

    def __str__(self) -> str:
        return f"{self.size} {self.sign} {self.number}"


def list_tests(site: LaunchSite, constants: Mapping[str, str]) -> list[SizeTest]:
    """List the conditions of a launch that compare something with a number, innermost first."""
    found = []
    for text in (part for each in site.tests for part in each.split("&&")):
        plain, turned = _TEST.fullmatch(text.strip()), _REVERSED.fullmatch(text.strip())
        size, sign, given = plain.groups() if plain else ("", "", "")
        number = constants.get(given, given)
        if turned and not number.isdecimal():
            size, sign, given = turned[3], _TURNED[turned[2]], turned[1]
            number = constants.get(given, given)
        if size and number.isdecimal() and "||" not in text:
            found.append(SizeTest(size, sign, int(number)))
    return found


def list_template_choices(function: Function, facts: SourceFacts) -> dict[str, tuple[str, str]]:
    """Map each argument of a kernel's template that its host chooses by a size to what it may be.

    Returns:
        The values, with ``|`` between, and the line of the first.
    """
    sites = _list_sites(function, facts)
    tested = next((each for each in sites if list_tests(each, facts.constants)), None)
    found: dict[str, tuple[str, str]] = {}
    for at, name in enumerate(function.template if tested else ()):
        values = dict.fromkeys(site.template[at] for site in sites if at < len(site.template))
        if tested and len(values) > 1 and all(_is_number(value, facts) for value in values):
            test = list_tests(tested, facts.constants)[0]
            shown = f"line {tested.line}: {test} starts {function.name}<{tested.template[at]}>"
            found[name] = ("|".join(values), f"{shown}; say {test.size} to suit it")
    return found


def _is_number(text: str, facts: SourceFacts) -> bool:
    return facts.constants.get(text, text).isdecimal()


def _list_sites(function: Function, facts: SourceFacts) -> list[LaunchSite]:
    """List the launches of a kernel by the first host, with arguments of its template."""
    sites = [each for each in facts.sites if function.is_kernel and each.kernel == function.name]
    return [each for each in sites if each.host == sites[0].host and each.template]


def choose_site(
    function: Function, types: Sequence[str], facts: SourceFacts, site: LaunchSite | None
) -> LaunchSite | None:
    """Return the launch of a kernel with some arguments of its template; else the one given."""
    chosen = _list_sites(function, facts) if list_template_choices(function, facts) else []
    return next((each for each in chosen if each.template == tuple(types)), site)


def iter_branch_limits(
    function: Function, own: Declaration, facts: SourceFacts, types: Sequence[str]
) -> Iterator[SizeLimit]:
    """Yield what a size may be where the host starts a kernel for some sizes only."""
    if not function.is_kernel:
        for size, tests in _group_tests(own, facts).items():
            yield _limit(size, tests)
        return
    sites = _list_sites(function, facts) if list_template_choices(function, facts) else []
    sites = [each for each in sites if each.template == tuple(types)] or sites
    names = [p.name for p in function.parameters]
    bound = bind_arguments(sites[0].arguments, names) if sites else {}
    for name, text in bound.items():
        every = (test for each in sites for test in list_tests(each, facts.constants))
        tests = [test for test in every if test.size == text]
        if tests:
            yield _limit(name, tests)


def guess_tested(function: Function, own: Declaration, facts: SourceFacts) -> Function:
    """Return a function whose open numbers that branches are chosen by have those for a guess."""
    limits = {each.sizes[0]: each.one_of for each in iter_branch_limits(function, own, facts, ())}
    parameters = [
        p._replace(guess="|".join(map(str, limits[p.name])))
        if p.value == FILL_IN_MARK and limits.get(p.name) and not p.guess
        else p
        for p in function.parameters
    ]
    return function._replace(parameters=tuple(parameters))


def _limit(size: str, tests: Sequence[SizeTest]) -> SizeLimit:
    if all(test.sign == "==" for test in tests):
        return SizeLimit((size,), 1, one_of=tuple(dict.fromkeys(t.number for t in tests)))
    return SizeLimit((size,), 1, max(t.number - (t.sign == "<") for t in tests))


def _group_tests(own: Declaration, facts: SourceFacts) -> dict[str, list[SizeTest]]:
    """Map each size without which a launcher starts nothing to the conditions of its launches.

    None that has a launch for the rest: in an ``else``, or behind a branch that returns.
    """
    sites = [each for each in facts.sites if each.host == own]
    named = [list_tests(each, facts.constants) for each in sites]
    names = [p.name for p in build_function(own).parameters]
    found: dict[str, list[SizeTest]] = {}
    for size in dict.fromkeys(test.size for tests in named for test in tests):
        chosen = [[test for test in tests if test.size == size] for tests in named]
        kernels = {each.kernel for each, tests in zip(sites, chosen, strict=True) if tests}
        rest = [each for each, tests in zip(sites, chosen, strict=True) if not tests]
        none = rf"!.*\b{re.escape(size)}\b"
        is_rest = any(s.kernel in kernels or re.match(none, " ".join(s.tests)) for s in rest)
        is_early = rest and re.search(r"\breturn\b", get_text(own.body))
        if re.split(r"\W", size)[0] in names and not (is_rest or is_early):
            found[size] = [test for tests in chosen for test in tests]
    return found


def warn_of_branches(
    function: Function, own: Declaration, facts: SourceFacts, types: Sequence[str]
) -> tuple[str, ...]:
    """Return a sentence for each size for which nothing, or another kernel, is started."""
    if not function.is_kernel:
        return tuple(
            f"{function.name} starts no kernel unless {_join(map(str, dict.fromkeys(tests)))}: "
            "nothing is computed then, and nothing says so"
            for tests in _group_tests(own, facts).values()
        )
    found = dict[str, None]()
    if choices := list_template_choices(function, facts):
        for site in _list_sites(function, facts):
            tests = list_tests(site, facts.constants)
            if site.template == tuple(types) and tests:
                test = tests[0]
                shown = f"{', '.join(choices)} = {', '.join(types)}"
                found[f"{shown} is for {test}, line {site.line}: keep to such a size"] = None
    return (*found,)


def _join(words: Iterator[str]) -> str:
    return " or ".join(words)
