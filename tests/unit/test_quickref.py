"""The quick reference: fresh, short, real Markdown, commands that work; a sheet of two pages."""

import re
import shlex
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from kernelkb.actions.knowledge.documents import (
    generate_quickref,
    generate_quickref_sheet,
    is_quickref_fresh,
)
from kernelkb.actions.knowledge.knowledge import load_project_knowledge
from kernelkb.cli import build_parser, main
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.render.documents.entries import describe_condition, label_field
from kernelkb.render.documents.quickref import COMMANDS

QUICK = ("recommend", "occupancy", "roofline", "search", "show")
"""Commands that neither build nor measure."""
VOID_TAGS = {"meta", "br", "col"}
MAX_BYTES = 14_000
"""Two A4 pages of plain text, and 4,500 tokens for an assistant: gate, causes, sizes, commands."""

CHECK_SIZES = """<script>
const pages = [...document.querySelectorAll("section.page")];
document.body.dataset.cut = pages.filter((p) => p.scrollHeight > p.clientHeight + 1).length;
document.body.dataset.pages = pages.length;
</script>"""


class TagCounter(HTMLParser):
    """Notes the open tags, and the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data.strip())


def read_sheet():
    parser = TagCounter()
    parser.feed(generate_quickref_sheet())
    return parser


def test_the_quick_reference_matches_the_knowledge():
    assert is_quickref_fresh()


def test_it_fits_two_printed_pages():
    assert len(generate_quickref().encode()) <= MAX_BYTES


def test_every_bottleneck_has_a_row_in_a_table():
    cells = [
        token.content
        for token in MarkdownIt("commonmark").enable("table").parse(generate_quickref())
        if token.type == "inline"
    ]

    assert {b.id for b in load_knowledge().bottlenecks} <= set(cells)


@pytest.mark.parametrize("command", [command for command, _ in COMMANDS])
def test_every_command_works(command, capsys):
    """What builds, measures or reads a file is parsed; the rest runs."""
    program, *words = shlex.split(command)
    options = build_parser([words[0]]).parse_args(words)
    named_files = {"profile", "log", "file", "source"} & set(vars(options))

    assert program == "kb"
    if words[0] in QUICK and not any(getattr(options, name) for name in named_files):
        assert main(words) in (0, 1)
        assert capsys.readouterr().out


def test_the_sheet_is_balanced_html_that_loads_nothing():
    sheet = read_sheet()

    assert sheet.open == []
    assert not re.search(r"(?:src|href|url\()", generate_quickref_sheet())


def test_the_sheet_shows_every_cause_architecture_gpu_and_command():
    knowledge, text = load_knowledge(), set(read_sheet().text)
    shown = (
        *(b.id for b in knowledge.bottlenecks),
        *(a.cc for a in knowledge.devices.architectures),
        *(d.id for d in knowledge.devices.devices),
        *(command for command, _ in COMMANDS),
    )

    assert set(shown) <= text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="nothing here lays out a page")
def test_two_pages_hold_the_whole_sheet(tmp_path):
    file = tmp_path / "sheet.html"
    file.write_text(generate_quickref_sheet().replace("</body>", f"{CHECK_SIZES}</body>"))
    page = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout

    assert re.search(r'data-pages="(\d+)"', page)[1] == "2"
    assert re.search(r'data-cut="(\d+)"', page)[1] == "0"


def test_the_command_prints_the_sheet(capsys):
    assert main(["quickref", "--html"]) == 0
    assert capsys.readouterr().out == generate_quickref_sheet()


def test_conditions_for_people_name_metrics_by_their_titles():
    knowledge = load_project_knowledge()
    metrics = {one.id: one for one in knowledge.catalogue.metrics}
    tree = next(one for one in knowledge.trees if one.id == "performance-gate")
    words = [
        describe_condition(q.when, knowledge.threshold_values, metrics) for q in tree.questions
    ]

    assert words[0] == "the result is correct"
    assert "speedup over the reference < 0.5" in words
    assert not any("_" in one or "==" in one for one in words)


def test_no_field_of_a_page_is_called_as_in_the_files():
    names = ("sm_clock_mhz", "l2_mb", "cost_min", "max_threads_sm", "cc", "applies")

    assert [label_field(name) for name in names] == [
        "SM clock in MHz", "L2 in MB", "cost in minutes", "max threads SM", "compute capability",
        "applies when",
    ]  # fmt: skip
