"""The quick reference: fresh, short, and real Markdown."""

from markdown_it import MarkdownIt

from kernelkb.actions.quickref import fresh, page
from kernelkb.loading.knowledge import load_knowledge


def test_the_file_is_what_the_knowledge_gives_now():
    assert fresh()


def test_it_fits_two_printed_pages():
    assert len(page().encode()) <= 8000


def test_every_bottleneck_has_a_row_in_a_table():
    cells = [
        token.content
        for token in MarkdownIt("commonmark").enable("table").parse(page())
        if token.type == "inline"
    ]

    assert {b.id for b in load_knowledge().bottlenecks} <= set(cells)
