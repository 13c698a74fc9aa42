"""The picture of a trend: the same for the same sessions, and nothing is loaded to see it."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime

import pytest

from kernelkb.model.outcome import AchievedSpeedup, SessionOutcome
from kernelkb.render.trend import render_trend_svg

SVG_NAMESPACE = "{http://www.w3.org/2000/svg}"


def make_outcomes(name="a", **more):
    opened = datetime(2026, 11, 21, tzinfo=UTC)
    given = {"session": name, "opened": opened, "kind": "recorded", "goal": "g", **more}
    return SessionOutcome(**given)


def make_timed_outcomes(speedup, low, high, **more):
    final = AchievedSpeedup(speedup=speedup, interval=(low, high), checked=True)
    return make_outcomes(**{"final": final, "minutes": 3.0, "minutes_to_build": 0.5, **more})


MANY = [
    make_timed_outcomes(0.5, 0.4, 0.6, changes=2, blind_changes=1, wrong_changes=0, cost_usd=0.6),
    make_outcomes("b"),
    make_outcomes("c", cost_usd=1.77),
]


def parse_svg(svg):
    return ET.fromstring(svg)  # noqa: S314 - it is our own


def list_circles(svg):
    """Return the marks of the charts, without those of the legends."""
    return [node for node in parse_svg(svg).iter(f"{SVG_NAMESPACE}circle") if node.get("class")]


def test_the_same_sessions_give_the_same_bytes():
    assert render_trend_svg(MANY) == render_trend_svg(MANY)


def test_another_process_gives_the_same_bytes():
    code = (
        "from datetime import UTC, datetime; import sys\n"
        "from kernelkb.model.outcome import SessionOutcome\n"
        "from kernelkb.render.trend import render_trend_svg\n"
        "opened = datetime(2026, 11, 21, tzinfo=UTC)\n"
        "a = SessionOutcome(session='a', opened=opened, kind='recorded', goal='g', cost_usd=1)\n"
        "sys.stdout.write(render_trend_svg([a]))"
    )
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert again.stdout.decode() == render_trend_svg([make_outcomes(cost_usd=1)])


def test_it_is_xml_without_scripts_comments_or_addresses():
    svg = render_trend_svg(MANY)

    assert parse_svg(svg).tag == f"{SVG_NAMESPACE}svg"
    assert "<script" not in svg
    assert "<!--" not in svg
    assert "@import" not in svg
    assert set(re.findall(r"https?://[^\"' <]+", svg)) == {"http://www.w3.org/2000/svg"}


def test_an_unknown_value_has_no_mark():
    assert list_circles(render_trend_svg([make_outcomes()])) == []


def test_a_known_zero_is_written_and_an_unknown_one_is_not():
    def numbers(session):
        return re.findall(r">(\d+)</text>", render_trend_svg([session]))

    counts = numbers(make_outcomes(changes=0, blind_changes=0, wrong_changes=0))

    assert len(counts) == len(numbers(make_outcomes())) + 3


def test_an_interval_is_drawn_from_its_low_to_its_high_end():
    root = parse_svg(render_trend_svg([make_timed_outcomes(1.0, 0.1, 10.0)]))
    (bar,) = [node for node in root.iter(f"{SVG_NAMESPACE}g") if node.get("class") == "ci"]
    ends = [float(y) for y in re.findall(r" (-?[\d.]+)", bar[0].get("d"))]
    (dot,) = [node for node in root.iter(f"{SVG_NAMESPACE}circle") if node.get("class")][:1]

    # A factor of ten up and a factor of ten down are as long on a logarithmic axis.
    assert max(ends) - float(dot.get("cy")) == pytest.approx(float(dot.get("cy")) - min(ends))


def test_every_session_is_named_and_a_long_name_is_cut():
    svg = render_trend_svg([make_outcomes("a"), make_outcomes("b" * 80)])

    assert ">a</text>" in svg
    assert f">{'b' * 29}…</text>" in svg


@pytest.mark.parametrize("count", [1, 2, 41, 200])
def test_any_number_of_sessions_is_drawn(count):
    sessions = [
        make_timed_outcomes(1.0 + n, 0.5 + n, 2.0 + n, session=f"s-{n}") for n in range(count)
    ]

    assert len(list_circles(render_trend_svg(sessions))) == 3 * count


def test_a_speedup_of_an_account_looks_different():
    measured = make_timed_outcomes(0.5, 0.4, 0.6)
    told = measured.model_copy(update={"kind": "reported"})

    assert render_trend_svg([measured]) != render_trend_svg([told])


def test_extreme_numbers_are_drawn():
    svg = render_trend_svg([make_timed_outcomes(1e-9, 1e-12, 1e-3, cost_usd=1e7, changes=10_000)])

    assert len(list_circles(svg)) == 3


def test_a_trend_without_a_plot_does_not_load_pygal():
    code = (
        "import sys, kernelkb.actions.session_outcomes, kernelkb.render.outcomes\n"
        "import kernelkb.render.trend\n"
        "sys.exit('pygal' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_plot_leaves_the_import_system_as_it_was():
    before = list(sys.meta_path)
    render_trend_svg([make_outcomes()])

    assert sys.meta_path == before
