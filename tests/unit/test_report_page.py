"""The page of a report: what it shows, that hostile text stays text, and that it fits."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from machine_code import make_counters, make_function
from shipped_rules import program

from kernelkb.actions.advice.report_page import build_code
from kernelkb.decide.recommend import recommend
from kernelkb.decide.source_lines import find_lines
from kernelkb.render.html.charts import RooflinePoint
from kernelkb.render.html.report_page import (
    MAX_PAGE_BYTES,
    KernelSection,
    ReportContents,
    format_report_page,
)

METRICS = {
    "profiled_us": 191.3, "stall_long_scoreboard": 0.95, "issue_rate": 0.14, "occupancy": 0.95,
    "dram_utilization": 0.65, "l2_utilization": 0.66, "lsu_wavefront_utilization": 0.07,
}  # fmt: skip
TIME = [
    {"part": "memory", "title": "memory: device memory", "share": 0.6},
    {"part": "long-scoreboard", "title": "waiting: long-scoreboard", "share": 0.3},
    {"part": "other", "title": "other", "share": 0.1},
]
FUNCTION = make_function(
    (3, "LDG.E R4, desc[UR4][R8.64]", "w0", ()),
    (7, "FADD R3, R4, R3", "", (0,)),
    (9, "STG.E desc[UR4][R8.64], R3", "", ()),
)
COUNTS = {"samples": {0: 1, 1: 95, 2: 4}, "stall_long_scoreboard": {1: 90}}
SOURCE = "\n".join(f"source of line {number};" for number in range(1, 13))
HOSTILE = (
    "<script>document.title='ran'</script>\"'><img src=x onerror=\"document.title='ran'\">&\u202e"
)
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on PATH")


def make_section(name="add_up(float *)", function=FUNCTION, source=SOURCE, counts=COUNTS):
    rules = program()
    counters = make_counters(function, source, **counts)
    answer = recommend(rules, METRICS, device="h100-sxm", kernel=name)
    answer.update(duration_us=191.3, share=0.75, time=TIME, at_most=1.4)
    first = answer["diagnoses"][0]
    first["lines"] = find_lines(counters, rules["line_evidence"][first["bottleneck"]])
    roofline = RooflinePoint(0.5, 1100.0, 66900.0, "FP32", 3080.0)
    return KernelSection(answer, 1, ("(8, 1, 1)", "(64, 1, 1)"), roofline, build_code(counters))


def make_page(*sections, **changes):
    contents = ReportContents(
        "a.ncu-rep", ("NVIDIA H100",), len(sections), len(sections), 255.0, sections, "0.1, abc"
    )
    return format_report_page(contents._replace(**changes))


class Page(HTMLParser):
    """The elements of a page, with the text in each, and every attribute."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text, self.links = set(), set(), [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name in ("href", "src", "action")]

    def handle_data(self, data):
        self.text.append(data)


def find_row(html, line):
    return re.search(rf'<(?:div|details)[^>]*id="k1-f0-{line}".*', html)[0]


def list_hostile(value):
    """Return the value with something hostile before each of its texts."""
    if isinstance(value, str):
        return HOSTILE + value
    if isinstance(value, list):
        return [list_hostile(one) for one in value]
    if isinstance(value, dict):
        return {
            name: one if name == "verdict" and one == "matches" else list_hostile(one)
            for name, one in value.items()
        }
    return value


def make_hostile_page():
    section = make_section(HOSTILE, source=f"{HOSTILE}\n{SOURCE}")
    code = section.code
    files = [one._replace(path=HOSTILE + one.path) for one in code.files]
    code = code._replace(files=tuple(files), counted="samples")
    section = section._replace(
        answer=list_hostile(section.answer), code=code, shape=(HOSTILE, HOSTILE)
    )
    return make_page(section, report=HOSTILE, devices=(HOSTILE,), knowledge=HOSTILE)


def test_the_table_names_time_share_cause_line_gain_and_headroom():
    table = make_page(make_section()).partition("<tbody>")[2].partition("</tbody>")[0]
    cells = dict(re.findall(r'data-name="([^"]*)"[^>]*>(.*?)</td>', table))

    assert cells["Kernel"] == '<a href="#k1">add_up(float *)</a>'
    assert (cells["Time"], cells["Share"]) == ("191.30 us", "75.0 %")
    assert cells["Cause"] == "memory-latency-bound"
    assert cells["Line"] == '<a href="#k1-f0-3">a.cu:3</a>'
    assert cells["Headroom"] == "at most 1.4x"


def test_the_line_with_the_most_samples_is_the_hottest_and_opens_to_its_instructions():
    row = find_row(make_page(make_section()), 7)

    assert "h20" in row
    assert "95.0 %" in row
    assert "source of line 7;" in row
    assert "FADD R3, R4, R3" in row
    assert "long_scoreboard" in row


def test_the_line_of_a_cause_says_so_and_is_open():
    row = find_row(make_page(make_section()), 3)

    assert row.startswith('<details id="k1-f0-3" open>')
    assert "<mark>memory-latency-bound: 100% of the waits for memory</mark>" in row


def test_hostile_text_stays_text():
    page = Page(make_hostile_page())

    assert page.tags <= {
        "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section",
        "h1", "h2", "h3", "h4", "p", "div", "span", "a", "b", "i", "br", "code", "mark", "ul", "li",
        "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "article", "dl", "dt",
        "dd", "svg", "line", "text", "polyline", "circle", "rect",
    }  # fmt: skip
    assert not [name for name in page.attributes if name.startswith("on")]
    assert all(link.startswith("#k1") for link in page.links)
    assert "document.title='ran'" in "".join(page.text)
    assert "\u202e" not in "".join(page.text)


def test_the_page_names_nothing_outside_and_forbids_scripts():
    html = make_page(make_section())

    assert "default-src 'none'; style-src 'unsafe-inline'" in POLICY.search(html)[0]
    assert "url(" not in html
    assert "//" not in html.replace("<!doctype html>", "")


def make_large_section(number):
    rows = [(1 + at % 400, f"IMAD.WIDE.U32 R{at % 200}, R3, R4, R5", "", ()) for at in range(12000)]
    source = "\n".join(f'float very_{"long_" * 12}name_{at} = "<&>";' for at in range(1, 2001))
    counts = {"samples": {at: 1 + at % 97 for at in range(12000)}}
    return make_section(f"k{number}<{'long, ' * 600}>", make_function(*rows), source, counts)


def test_twenty_large_kernels_fit_and_the_page_says_what_is_missing():
    large = make_large_section(0)
    html = make_page(*[large] * 20)

    assert len(html.encode()) <= MAX_PAGE_BYTES
    assert len(html.encode()) > MAX_PAGE_BYTES / 2
    assert html.count("of 12,000 instructions are shown") == 20
    assert "lines not shown" in html


def test_the_line_of_a_cause_is_shown_however_cold_it_is():
    rows = [(2 * at, "FADD R3, R4, R3", "", ()) for at in range(1, 900)]
    function = make_function((1900, "LDG.E R4, desc[UR4][R8.64]", "w0", ()), *rows,
                             (1990, "FADD R3, R4, R3", "", (0,)))  # fmt: skip
    counts = {"samples": dict.fromkeys(range(1, 901), 9), "stall_long_scoreboard": {900: 9}}
    source = "\n".join(f"s{at};" for at in range(1, 2001))
    html = make_page(make_section(function=function, source=source, counts=counts))

    assert "<mark>" in find_row(html, 1900)
    assert "<code>s1899;</code>" in html


def test_a_form_feed_in_a_source_ends_no_line():
    html = make_page(make_section(source=SOURCE.replace("line 1;", "line 1;\f")))

    assert "source of line 7;" in find_row(html, 7)


def test_a_file_whose_text_is_unknown_shows_its_instructions():
    html = make_page(make_section(source=""))

    assert "--import-source yes" in html
    assert "LDG.E R4" in find_row(html, 3)


def test_without_samples_the_shares_are_of_executed_instructions():
    html = make_page(make_section(counts={"inst_executed": {0: 10, 1: 30}}))

    assert "Shares are of the executed instructions" in html
    assert "75.0 %" in find_row(html, 7)


def test_instructions_without_a_line_stand_at_the_end():
    function = make_function((None, "NOP", "", ()), (7, "FADD R3, R4, R3", "", ()))
    html = make_page(make_section(function=function, counts={"samples": {0: 1, 1: 3}}))

    assert "Instructions without a line, 25.0 %" in html


def test_a_page_without_code_says_why():
    section = make_section()._replace(code=None, missing="it is a table", roofline=None)
    html = make_page(section)

    assert "No source: it is a table" in html
    assert 'class="roofline"' not in html


def test_kernels_that_are_left_out_are_counted():
    html = make_page(make_section(), kernel_count=4)

    assert "3 further kernels or shapes of the report are not shown" in html


def look_in_browser(folder, html, width):
    """Return what a browser makes of a page, measured by another page around it."""
    asked = (
        "{title: page.title, overflow: [page.documentElement, ...page.querySelectorAll('.source')]"
        ".filter(one => one.scrollWidth > one.clientWidth).length,"
        " kernels: page.querySelectorAll('.kernels tbody tr').length,"
        " scripts: page.querySelectorAll('script, img').length,"
        " marked: page.querySelector('mark').closest('.row').innerText,"
        " seen: page.querySelector('.kernels tbody td').getBoundingClientRect().height,"
        " opened: page.querySelector('details[open] .sass').getBoundingClientRect().height}"
    )
    quoted = json.dumps(html).replace("<", "\\u003c")
    around = folder / "around.html"
    around.write_text(
        f'<meta charset="utf-8"><iframe style="width:{width}px;height:900px;border:0"></iframe>'
        "<pre></pre><script>const frame = document.querySelector('iframe');"
        "frame.onload = () => {const page = frame.contentDocument;"
        f"document.querySelector('pre').textContent = JSON.stringify({asked})}};"
        f"frame.srcdoc = {quoted}</script>"
    )
    words = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        f"--user-data-dir={folder / 'browser'}", "--dump-dom", around.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    found = HTMLParser()
    texts = []
    found.handle_data = texts.append
    found.feed(done.stdout.partition("<pre>")[2].partition("</pre>")[0])
    return json.loads("".join(texts))


@needs_browser
@pytest.mark.parametrize("width", [320, 390, 900, 1280])
def test_a_browser_shows_the_table_and_the_line_without_scrolling_sideways(tmp_path, width):
    name = f"void library::run_{'a' * 90}<{'float, ' * 60}>(float *)"
    found = look_in_browser(tmp_path, make_page(make_section(name), make_section()), width)

    assert found["kernels"] == 2
    assert "source of line 3;" in found["marked"]
    assert "memory-latency-bound" in found["marked"]
    assert min(found["seen"], found["opened"]) > 10
    assert found["overflow"] == 0


@needs_browser
def test_a_browser_runs_no_script_of_a_hostile_report_even_without_the_policy(tmp_path):
    html, count = POLICY.subn("", make_hostile_page())
    found = look_in_browser(tmp_path, html, 390)

    assert count == 1
    assert found["title"].startswith("<script>")
    assert found["scripts"] == 0
    assert found["overflow"] == 0
