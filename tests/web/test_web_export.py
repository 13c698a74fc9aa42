"""A copy of the page needs no server, no script and nothing outside of its folder."""

import re
from urllib.parse import unquote

import pytest
from hostile_texts import HOSTILE_TEXTS
from web_page import KERNEL, SESSION, fill_project

from kernelkb.cli import main
from kernelkb.errors import UnknownNameError
from kernelkb.web.export import export_site


@pytest.fixture(scope="module")
def copy(module_project, tmp_path_factory):
    fill_project(module_project, HOSTILE_TEXTS[0])
    folder = tmp_path_factory.mktemp("copy")
    export_site(folder, SESSION)
    return folder


def list_files(folder):
    return sorted(one for one in folder.rglob("*") if one.is_file())


def test_a_copy_of_a_session_holds_its_checklist_and_its_kernel(copy):
    names = {one.relative_to(copy).as_posix() for one in list_files(copy)}

    assert {"index.html", f"kernel/{KERNEL}.html", f"session/{SESSION}.html"} <= names
    assert "0.62x of torch" in (copy / "index.html").read_text("utf-8")


def test_every_link_of_a_copy_leads_to_a_file_of_it(copy):
    for file in copy.rglob("*.html"):
        text = file.read_text("utf-8")
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            path = unquote(link.partition("#")[0])
            if path:
                assert (file.parent / path).resolve().is_relative_to(copy.resolve()), link
                assert (file.parent / path).is_file(), (file.name, link)


def test_a_copy_has_no_script_no_form_and_forbids_both(copy):
    for file in copy.rglob("*.html"):
        text = file.read_text("utf-8")

        assert "<script" not in text
        assert "default-src 'none'" in text
        assert 'method="post"' not in text
        assert HOSTILE_TEXTS[0] not in text


def test_the_command_says_how_many_pages_it_wrote(module_project, copy, tmp_path, capsys):
    assert main(["web", "--export", str(tmp_path / "new"), "--session", SESSION]) == 0
    assert "index.html" in capsys.readouterr().out
    with pytest.raises(UnknownNameError):
        export_site(tmp_path, "2020-01-01-none")
