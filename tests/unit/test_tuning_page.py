"""The page of a search: what it shows, that it stays text, and that a browser can show it."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from tuning_results import VALUES, draw_trials, make_result

from kernelkb.errors import BadValueError
from kernelkb.model.kernels.tuning import FactChange, GainExplanation, SavedTime
from kernelkb.tune.result_files import format_tuning_page, require_page_folder, write_tuning_page

HOSTILE = "<script>document.title='ran'</script>\"'><img src=x onerror=\"document.title='ran'\">"
WHY = GainExplanation(
    parts=(SavedTime(title="waiting: barrier", default_us=4.0, winner_us=None, saved_us=4.0),),
    changes=(
        FactChange(metric="occupancy", title="occupancy", unit="share", default=0.1, winner=0.4),
    ),
)
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on PATH")


def find_tags(html):
    found = HTMLParser()
    tags, names = [], set()

    def note(tag, attrs):
        tags.append(tag)
        names.update(name for name, _ in attrs)

    found.handle_starttag = note
    found.feed(html)
    return tags, names


def test_the_page_shows_what_the_search_found():
    result = make_result(why=WHY)
    html = format_tuning_page(result)
    timed = sum(one.status == "timed" for one in result.trials)

    assert html.count('<circle class="trial"') >= 2 * timed
    assert html.count("<figcaption><code>") == len(VALUES)
    assert html.index("<code>BLOCK_M</code></figcaption>") < html.index(
        "<code>STAGES</code></figcaption>"
    )
    assert html.count('<svg class="interval"') == 2
    assert "with BLOCK_N=256 (of" in html
    assert "BLOCK_M % WARP_M == 0" in html
    assert "4.00 us saved: waiting: barrier (4.00 us -&gt; below 2 %)" in html
    assert "occupancy 10.0 % -&gt; 40.0 %" in html


def test_the_page_names_nothing_outside_and_hostile_text_stays_text():
    trials = [
        one.model_copy(update={"detail": HOSTILE}) if one.status == "refused" else one
        for one in draw_trials(60)
    ]
    html = format_tuning_page(make_result(trials, device=HOSTILE, unrecorded=HOSTILE))
    tags, attributes = find_tags(html)

    assert not {"script", "img", "link"} & set(tags)
    assert not [name for name in attributes if name.startswith("on")]
    assert "default-src 'none'" in html
    assert "//" not in html.replace("<!doctype html>", "")


def test_a_page_without_any_time_has_no_picture():
    html = format_tuning_page(
        make_result([one for one in draw_trials(40) if one.status == "refused"], ())
    )

    assert "<svg" not in html
    assert "No configuration could be timed" in html


@pytest.mark.parametrize("count", [1, 2])
def test_a_page_of_one_or_two_trials_is_whole(count):
    assert format_tuning_page(make_result(draw_trials(count), ((1.0, 1.0, 1.0),))).endswith(
        "</html>\n"
    )


def test_a_page_of_many_trials_stays_below_two_megabytes():
    assert len(format_tuning_page(make_result(draw_trials(5000))).encode()) < 2_000_000


def test_the_page_replaces_a_file_and_a_missing_folder_is_told_before(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("old")

    assert write_tuning_page(make_result(), page) == page.stat().st_size
    assert "old" not in page.read_text()[:3]
    with pytest.raises(BadValueError, match="no such folder"):
        require_page_folder(tmp_path / "missing" / "page.html")


@needs_browser
@pytest.mark.parametrize("width", [320, 390, 900, 1280])
def test_a_browser_shows_all_of_it_without_scrolling_sideways(tmp_path, width):
    html = format_tuning_page(make_result(why=WHY))
    asked = (
        "{overflow: page.documentElement.scrollWidth > page.documentElement.clientWidth,"
        " charts: [...page.querySelectorAll('svg')].filter("
        "one => one.getBoundingClientRect().height > 10).length,"
        " outside: [...page.querySelectorAll('.chart text')].filter(one => {"
        "const box = one.getBoundingClientRect(), all = "
        "one.closest('svg').getBoundingClientRect();"
        "return box.left < all.left - 1 || box.right > all.right + 1 || "
        "box.bottom > all.bottom + 1}).map(one => one.textContent)}"
    )
    around = tmp_path / "around.html"
    quoted = json.dumps(html).replace("<", "\\u003c")
    around.write_text(
        f'<meta charset="utf-8"><iframe style="width:{width}px;height:900px;border:0"></iframe>'
        "<pre></pre><script>const frame = document.querySelector('iframe');"
        "frame.onload = () => {const page = frame.contentDocument;"
        f"document.querySelector('pre').textContent = JSON.stringify({asked})}};"
        f"frame.srcdoc = {quoted}</script>"
    )
    words = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        f"--user-data-dir={tmp_path / 'browser'}", "--dump-dom", around.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    found = json.loads(re.search("<pre>(.*?)</pre>", done.stdout, re.DOTALL)[1])

    assert found == {"overflow": False, "charts": 2 + len(VALUES) + 2, "outside": []}
