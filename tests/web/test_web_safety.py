"""Who may see the page, and who may change something through it."""

from urllib.parse import quote

import pytest
from web_page import SESSION, TOKEN, serve_project, wait_for

from kernelkb.cli import main
from kernelkb.record.running import list_running
from kernelkb.record.sessions import read_session


@pytest.mark.parametrize("token", [None, "", "x" * 30, TOKEN[:-1], TOKEN + "t"])
def test_nobody_sees_a_page_without_the_token(page, token):
    answer = page.ask("/", token=token)

    assert answer.status == 401
    assert "row_softmax" not in answer.text


def test_the_token_of_the_address_becomes_a_cookie_that_no_script_and_no_other_site_gets(page):
    answer = page.ask(f"/decision?speedup=0.3&token={TOKEN}", token=None)
    cookie = answer.headers["set-cookie"]

    assert answer.status == 303
    assert answer.headers["location"] == "/decision?speedup=0.3"
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert page.ask("/", token=None, headers={"Cookie": cookie.partition(";")[0]}).status == 200


def test_the_address_with_the_token_leads_nowhere_else(page):
    answer = page.ask(f"//evil.example/?token={TOKEN}", token=None)

    assert answer.headers["location"] == "/evil.example/"


def test_the_address_with_the_token_writes_no_header(page):
    answer = page.ask(f"/kernel/a%0d%0aSet-Cookie:%20b=c?token={TOKEN}", token=None)

    assert answer.status == 303
    assert answer.headers["location"] == "/kernel/a%0D%0ASet-Cookie%3A%20b%3Dc"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil:80"])
def test_another_name_of_this_machine_is_refused(page, host):
    assert page.ask("/", headers={"Host": host}).status == 421


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:1"])
def test_a_form_of_another_site_is_refused(page, origin):
    form = {"form_key": page.read_form_key(), "session": SESSION, "item": "x", "note": "n"}

    answer = page.ask("/checklist/mark", form=form, headers={"Origin": origin})

    assert answer.status == 403


@pytest.mark.parametrize("key", [None, "", "0" * 64])
def test_a_form_without_its_key_changes_nothing(page, web_project, key):
    before = (web_project / "sessions" / f"{SESSION}.md").read_bytes()
    form = {"session": SESSION, "item": "claims-verified", "note": "n", "passed": "passed"}

    answer = page.ask("/checklist/mark", form=form if key is None else {**form, "form_key": key})

    assert answer.status == 403
    assert (web_project / "sessions" / f"{SESSION}.md").read_bytes() == before


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_and_forms_are_known(page, method):
    assert page.ask("/", method=method).status == 405


def test_every_answer_forbids_scripts_and_styles_that_stand_in_a_page(page):
    for path in ("/", "/decision?speedup=0.3", "/nothing", "/live", f"/?token={TOKEN}"):
        policy = page.ask(path).headers["content-security-policy"]

        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize(
    "path",
    [
        "/static/x/../../../../etc/passwd",
        "/static/000000000000/page.js",
        "/report/..%2f..%2fetc",
        "/report/000000000000000000000000",
        "/session/..%2f..%2fetc%2fpasswd",
        "/kernel/..%2f..",
        "/knowledge/fixes/..%2fx",
        "/attempt/x",
        "/difference?a=../x&b=y",
        "/reports?a=/etc/passwd&b=/etc/passwd",
    ],
)
def test_what_does_not_exist_is_said_in_one_line_without_a_stack(page, path):
    answer = page.ask(path)

    assert answer.status in (404, 422)
    assert "Traceback" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize("page_of", ["9" * 5000, "\u0663", "-1"])
def test_a_page_of_sessions_that_does_not_exist_is_the_last_or_the_first(page, page_of):
    assert page.ask(f"/history?page={quote(page_of)}").status == 200


@pytest.mark.parametrize("text", ["\0", "one line\0", "/etc/passwd"])
def test_a_pasted_line_is_no_path_and_its_report_says_what_is_wrong(page, text):
    answer = page.send("/decision/report", text=text)
    shown = page.ask(answer.headers["location"]) if answer.status == 303 else answer

    assert shown.status == 422
    assert "root:" not in shown.text


def test_a_body_that_is_too_long_is_refused(page):
    headers = {"Content-Length": str(2**40)}

    assert page.ask("/decision/report", body=b"x", headers=headers).status == 413


def test_an_address_that_others_reach_has_to_be_allowed(web_project, capsys):
    assert main(["web", "--host", "0.0.0.0", "--no-browser"]) == 2
    assert "--allow-remote" in capsys.readouterr().err


def test_read_only_mode_shows_everything_and_changes_nothing(web_project):
    before = sorted((one, one.stat().st_mtime_ns) for one in (web_project / "sessions").iterdir())
    with serve_project(web_project, "--read-only") as client:
        form = {"session": SESSION, "item": "claims-verified", "note": "n", "passed": "passed"}
        answers = [
            client.send("/checklist/mark", **form),
            client.send("/live/start", command="bench", kernel="row_softmax"),
            client.send("/live/stop", run="x"),
        ]
        shown = client.ask("/checklist").text

    assert [one.status for one in answers] == [403, 403, 403]
    assert "/checklist/mark" not in shown
    assert "read-only" in shown
    after = sorted((one, one.stat().st_mtime_ns) for one in (web_project / "sessions").iterdir())
    assert after == before


def test_a_tick_is_in_the_sessions_file_when_the_page_answers(page, web_project):
    said = {"session": SESSION, "item": "claims-verified", "passed": "passed", "note": "by hand"}

    answer = page.send("/checklist/mark", **said)
    found = read_session(SESSION, web_project / "sessions").entries[-1]

    assert answer.status == 303
    assert (found.marks[0].item, found.marks[0].passed, found.marks[0].note) == (
        "claims-verified", True, "by hand",
    )  # fmt: skip
    wait_for(lambda: "ticked by hand" in page.ask("/checklist").text)


def test_a_build_that_the_page_starts_is_followed_to_its_end(page, web_project):
    answer = page.send("/live/start", command="build", kernel="broken", variant="")

    assert answer.status == 303
    wait_for(
        lambda: any(run.what.startswith("build") and run.end for run in list_running(web_project)),
        120,
    )
    assert "built" in page.ask("/live").text


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/checklist/mark", {"session": SESSION, "item": "no-such-item", "passed": "passed"}),
        ("/checklist/mark", {"session": SESSION, "item": "claims-verified"}),
        ("/checklist/mark", {"session": "../../x", "item": "claims-verified", "note": "n"}),
        ("/live/start", {"command": "rm", "kernel": "row_softmax"}),
        ("/live/start", {"command": "bench", "kernel": "../x"}),
        ("/live/stop", {"run": "../x"}),
        ("/decision/report", {"text": " "}),
    ],
)
def test_a_wrong_form_is_answered_with_what_is_wrong(page, path, form):
    answer = page.send(path, **form)

    assert answer.status == 422
    assert 'role="alert"' in answer.text
