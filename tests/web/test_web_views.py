"""What the views show, read from a real server."""

import re
from contextlib import suppress
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from attempts import make_attempt, make_timing
from hostile_texts import HOSTILE_TEXTS
from measurements import make_bench
from web_page import KERNEL, REPORT, ROOT, SESSION, fill_project, write_session

from kernelkb.actions.advice.recommend import recommend_from_metrics
from kernelkb.actions.knowledge.knowledge import group_entries_by_kind, load_project_knowledge
from kernelkb.actions.sessions.session_brief import list_brief_lines, resume_session
from kernelkb.model.records.session import Session, SessionEntry, Step
from kernelkb.progress import record_event, report_progress
from kernelkb.record.attempt_store import open_attempts
from kernelkb.record.attempt_tree import build_tree
from kernelkb.record.measurements.store import open_store
from kernelkb.record.running import list_running, publish_progress
from kernelkb.record.sessions import append_entry, create_session, set_open_session
from kernelkb.web import checklist, decision, history, knowledge, live, start
from kernelkb.web.site import SCRIPTS, Site, read_static

TABLE = ROOT / "tests" / "data" / "ncu" / "row_softmax_full.csv"
_ACTIVE = {"script", "iframe", "object", "embed", "base", "style", "template"}
CAUSE = {"kind": "bottlenecks", "name": "uncoalesced-global-access"}
_VOID = {"meta", "link", "input", "br", "img", "col"}


class PageReader(HTMLParser):
    """Collects what would run, what is not closed, ids and links."""

    def __init__(self):
        super().__init__()
        self.harm, self.open, self.ids, self.links, self.torn = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in _ACTIVE and not (tag == "script" and given.get("src", "").startswith("/static/")):
            self.harm.append(tag)
        for name, value in attrs:
            runs = name.startswith("on") or name == "style"
            if runs or (name in ("href", "src", "action") and "javascript:" in value.lower()):
                self.harm.append(f"{tag} {name}")
            if name == "id":
                self.ids.append(value)
            if name == "href":
                self.links.append(value)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.torn.append(tag)


def read_page(text):
    reader = PageReader()
    reader.feed(text)
    assert reader.harm == []
    assert reader.torn == []
    assert reader.open == []
    assert [one for one in reader.ids if reader.ids.count(one) > 1] == []
    return reader


@pytest.fixture(scope="module")
def report(page):
    """The address of a report that was dropped on the page."""
    mark = "boundary"
    parts = f'--{mark}\r\nContent-Disposition: form-data; name="form_key"\r\n\r\n'
    parts += f"{page.read_form_key()}\r\n--{mark}\r\nContent-Disposition: form-data; "
    parts += 'name="report"; filename="a.ncu-rep"\r\n\r\n'
    body = parts.encode() + REPORT.read_bytes() + f"\r\n--{mark}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={mark}"}
    answer = page.ask("/decision/report", body=body, headers=headers)
    assert answer.status == 303, answer.text
    return answer.headers["location"]


def test_every_view_is_whole_and_runs_nothing_that_stands_in_it(page, attempts):
    for path in (
        "/", "/search?q=softmax", "/search", "/decision", "/checklist", "/live", "/history",
        "/history?page=7", f"/kernel/{KERNEL}", f"/session/{SESSION}", f"/attempt/{attempts[1]}",
        "/knowledge", "/knowledge/quickref", "/knowledge/fixes",
        "/decision?speedup=0.3&occupancy=0.4&metrics=over_fetch%3D3.9&gpu=h100-sxm",
        "/decision?tree=memory-hierarchy&bandwidth=0.9&target=cpu",
    ):  # fmt: skip
        answer = page.ask(path)

        assert answer.status == 200, path
        read_page(answer.text)


def test_every_link_of_the_first_views_leads_somewhere(page):
    for path in ("/", "/history", f"/kernel/{KERNEL}", "/knowledge", "/decision?speedup=0.3"):
        links = {one for one in read_page(page.ask(path).text).links if one.startswith("/")}
        for link in sorted(links)[:12]:
            assert page.ask(link.partition("#")[0]).status == 200, link


def test_every_entry_of_the_knowledge_has_a_page_that_links_only_to_entries():
    site = Site("project", form_key="k")
    groups = group_entries_by_kind(load_project_knowledge())
    known = {f"/knowledge/{kind}/{name}" for kind, found in groups.items() for name in found}
    for kind in knowledge.KIND_TITLES:
        for name in list(groups[kind])[:: len(groups[kind]) // 8 + 1]:
            links = read_page(site.fill(knowledge.show_entry({"kind": kind, "name": name}))).links
            inner = {one for one in links if re.match(r"/knowledge/[^/]+/", one)}

            assert inner <= known | {"/knowledge/quickref"}


def test_a_fix_is_linked_from_its_cause_and_back():
    site = Site("project")
    cause = site.fill(knowledge.show_entry(CAUSE))
    fix = site.fill(knowledge.show_entry({"kind": "fixes", "name": "remap-threads-coalesced"}))

    assert 'href="/knowledge/fixes/remap-threads-coalesced"' in cause
    assert 'href="/knowledge/bottlenecks/uncoalesced-global-access"' in fix


def test_a_cause_tells_its_limits_as_a_table_and_its_boxes_in_words():
    site = Site("project")
    text = site.fill(knowledge.show_entry(CAUSE))
    values = knowledge.show_entry(
        {"kind": "bottlenecks", "name": "uncoalesced-global-access"}
    ).values
    boxes = [line for box in values["diagram_of"].boxes for line in box.lines]

    assert ("Over-fetch", "> 1.5", "") in [row[1:4] for row in values["limits"]["when"]]
    assert ("Share of sectors in excess", "> 10", "%") in [
        row[1:4] for row in values["limits"]["when"]
    ]
    assert 'href="/knowledge/thresholds/' in text
    assert "Let neighbouring threads walk the" in boxes
    assert not any("_" in line for line in boxes)


def test_a_metric_tells_in_words_what_it_is_computed_from():
    text = Site("project").fill(knowledge.show_entry({"kind": "metrics", "name": "over_fetch"}))

    assert "DRAM bytes / bytes of the algorithm (dram_bytes / algorithmic_bytes)" in text


def test_every_question_of_a_tree_has_a_place_that_the_decision_leads_to(page):
    path = "/knowledge/trees/performance-gate"
    places = set(read_page(page.ask(path).text).ids)
    links = read_page(page.ask("/decision?speedup=0.3").text).links
    asked = {one.partition("#")[2] for one in links if one.startswith(f"{path}#")}

    assert len(asked) > 10
    assert asked <= places


@pytest.mark.parametrize(
    ("query", "metrics"),
    [
        ({"speedup": "0.3", "occupancy": "0.4"}, {}),
        ({"speedup": "0.9", "bandwidth": "0.92"}, {}),
        ({"speedup": "1.4", "metrics": "over_fetch=3.9"}, {"over_fetch": "3.9"}),
    ],
)
def test_the_decision_is_that_of_the_command_line(query, metrics):
    """The gate and the causes are of the same function, and the leaf on the path is the gate."""
    headlines = {name: value for name, value in query.items() if name != "metrics"}
    expected = recommend_from_metrics(metrics, headlines=headlines)["kernels"][0]
    values = decision.show_decision(query).values

    assert values["kernel"].answer == expected
    taken = [leaf.id for leaf in values["tree"].leaves if leaf.id in values["taken"]]
    assert taken == [expected["gate"]["id"]]


def test_a_wrong_number_is_said_and_the_tree_still_shown(page):
    answer = page.ask("/decision?speedup=fast")

    assert answer.status == 200
    assert 'role="alert"' in answer.text
    assert "<svg" in answer.text


def test_a_report_shows_table_budget_roofline_and_source_as_kb_report_does(page, report):
    text = page.ask(report).text

    assert "Where the time goes" in text
    assert 'class="kernels"' in text
    assert 'class="diagnosis"' in text
    read_page(text)


def test_two_reports_stand_side_by_side(page, report):
    key = report.rpartition("/")[2]
    table = page.send("/decision/report", text=TABLE.read_text("utf-8"), before="")
    answer = page.ask(f"/reports?a={key}&b={key}")

    assert table.status == 303
    assert page.ask(table.headers["location"]).status == 200
    assert answer.status == 200
    read_page(answer.text)


def test_a_kept_page_shows_what_was_measured_since_and_is_the_same_until_then(page, web_project):
    """Also of a session that was opened, and of an attempt."""
    before = [page.ask(path).text for path in (f"/kernel/{KERNEL}", "/history", "/")]
    again = [page.ask(path).text for path in (f"/kernel/{KERNEL}", "/history")]
    one, content = make_attempt("third", 8, kernel=KERNEL)
    with open_store(web_project) as store:
        new = make_bench("naive", 17.0, hours=11, where={"kernel": KERNEL})
        store.add([new])
    with open_attempts(web_project) as store:
        store.add([one], [make_timing(one, 9, 17.5)], [content])
    write_session(web_project, "one more goal", "2026-11-30-more")
    set_open_session(web_project, SESSION)
    after = [page.ask(path).text for path in (f"/kernel/{KERNEL}", "/history", "/")]

    assert again == before[:2]
    assert new.id[:8] not in before[0]
    assert new.id[:8] in after[0]
    assert one.id[:8] in after[0]
    assert "17.00 us" in after[1]
    assert "one more goal" in after[1]
    assert "17.00 us" in after[2]


def test_the_older_measurements_of_a_kernel_are_shown_when_asked_for(web_project):
    with open_store(web_project) as store:
        store.add(
            make_bench("many", 30.0, hours=20 + at, where={"kernel": "m"}) for at in range(20)
        )
    few, every = (
        history.show_kernel_history({"name": "m", **more}).values for more in ({}, {"all": "1"})
    )

    assert (len(few["shown"]), len(every["shown"])) == (12, 20)
    assert "8 older ones" in Site("project").fill(history.show_kernel_history({"name": "m"}))


def grow(parents):
    """Return a tree of attempts, each after the one of that place in the list; the last is best."""
    made = []
    for at, parent in enumerate(parents):
        after = made[parent].id if parent is not None else None
        made.append(make_attempt(f"state {at}", at, after)[0])
    times = [make_timing(one, at, 90.0 - at) for at, one in enumerate(made)]
    return build_tree(made, times), [one.id for one in made]


def list_ids(lines):
    return [[row.id for row in line] for line in lines]


def test_the_way_to_the_best_attempt_is_one_line_and_the_others_are_beside_it():
    tree, ids = grow([None, 0, 0, 2, 1, 1, 4, 3, 5])
    (line,) = history.list_attempt_lines(tree)

    assert list_ids([line]) == [[ids[0], ids[1], ids[5], ids[8]]]
    assert [row.look for row in line] == ["way", "way", "way", "best"]
    assert [row.beside for row in line] == [3, 2, 0, 0]
    assert list_ids(line[0].branches) == [[ids[2], ids[3], ids[7]]]
    assert list_ids(line[1].branches) == [[ids[4], ids[6]]]


def test_attempts_that_branch_again_and_again_do_not_move_to_the_right_for_ever():
    parents = [None]
    for at in range(30):
        parents += [2 * at, 2 * at]  # the first of two is left each time, the other one goes on
    parents = [None if at is None else max(at - 1, 0) for at in parents]
    tree, ids = grow([*parents, 0])

    def measure(lines):
        return max((1 + measure(row.branches) for line in lines for row in line), default=0)

    def count(lines):
        return sum(1 + count(row.branches) for line in lines for row in line)

    lines = history.list_attempt_lines(tree)
    assert count(lines) == len(ids)
    assert 3 < measure(lines) <= 9


def test_a_kernel_page_folds_what_was_tried_beside_the_best_and_the_older_ones(web_project):
    made = []
    with open_attempts(web_project) as store:
        for at in range(24):
            after = made[at - 1 if at % 6 else max(at - 3, 0)].id if made else None
            one, content = make_attempt(f"long {at}", at, after, kernel="long_story")
            made.append(one)
            store.add([one], [make_timing(one, at, 90.0 - at)], [content])
    with open_store(web_project) as store:
        store.add([make_bench("naive", 30.0, where={"kernel": "long_story"})])
    text = Site("project").fill(history.show_kernel_history({"name": "long_story"}))

    assert "<summary>2 others from here</summary>" in text
    assert re.search(r"<summary>\d+ before</summary>", text)
    assert all(one.id[:8] in text for one in made)
    read_page(text)


def write_bench(project, day, speedup, **context):
    """Write a session with one bench."""
    opened = datetime(2026, 6, day, 9, tzinfo=UTC)
    name, goal = f"2026-06-{day:02d}-trend", "faster"
    step = Step(
        name="bench", variant="naive", status="ok", found="timed", seconds=1.0, speedup=speedup,
        baseline="torch", workload="medium", verdict="faster",
    )  # fmt: skip
    create_session(Session(session=name, opened=opened, goal=goal, kernel="trend"), project)
    given = {"kernel": "trend", "target": "cuda", "machine": "A GPU", **context}
    append_entry(SessionEntry(session=name, at=opened, goal=goal, steps=(step,), **given), project)
    return name


def test_a_session_tells_its_best_bench_beside_that_of_the_one_before_that_is_like_it(project):
    folder = project / "sessions"
    first, second = write_bench(folder, 1, 1.25), write_bench(folder, 2, 1.5)
    other = write_bench(folder, 3, 0.5, machine="Another GPU")
    last = write_bench(folder, 4, 1.375)
    values = history.show_history({}).values

    assert [row.id for row in values["sessions"]] == [last, other, second, first]
    assert values["before"] == {second: 1.25, last: 1.5}
    assert "1.38x" in Site("project").fill(history.show_history({}))


def test_of_many_kernels_the_further_ones_are_folded(project):
    with open_store(project) as store:
        store.add(make_bench("naive", 30.0, where={"kernel": f"k{at}"}) for at in range(20))
    text = Site("project").fill(start.show_start({}))

    assert "<summary>8 more</summary>" in text
    assert text.count('href="/kernel/') == 20


def test_what_was_tried_is_no_next_step(project):
    fill_project(project)
    told = [line for line in list_brief_lines(kernel=KERNEL) if not isinstance(line, str)]
    tried = {line.text for line in told if line.label in ("+", "-")}

    assert tried
    assert not tried & set(resume_session(KERNEL, None).steps)


def test_the_fixes_are_listed_by_family(page):
    text = page.ask("/knowledge/fixes").text

    assert text.count('<details class="phase">') == len(load_project_knowledge().families)
    assert "memory traffic" in text


def test_a_report_names_the_others_by_when_they_were_kept(page, report):
    other = page.send("/decision/report", text=TABLE.read_text("utf-8")).headers["location"]
    links = read_page(page.ask(other).text).links
    key, before = report.rpartition("/")[2], other.rpartition("/")[2]

    assert f"/reports?a={before}&b={key}" in links
    assert re.search(r">\d\d \w{3} \d\d:\d\d</a>", page.ask(other).text)
    assert not any(link.endswith(f"b={before}") for link in links)


def test_what_is_no_report_is_said(page):
    answer = page.send("/decision/report", text="hello")

    assert page.ask(answer.headers["location"]).status == 422


def test_an_item_is_ticked_by_the_step_that_its_command_recorded(web_project, attempts):
    items = {
        item.gate.id: item
        for phase in checklist.show_checklist({}).values["phases"]
        for item in phase.items
    }

    assert items["smoke-test-right"].state == "passed"
    assert "0.62x of torch" in items["smoke-test-right"].by
    assert items["sources-complete"].state == "open"


def test_a_running_command_is_seen_from_another_process_while_it_runs_and_after(page, web_project):
    with publish_progress(web_project, "bench seen_from_outside"):
        report_progress("waiting for the CPU: 2 before us", "waiting")
        assert "2 before us" in page.ask("/live").text
        record_event("result", text="1.5x of torch", name="bench", status="ok", seconds=2.0,
                     speedup=1.5, interval=(1.4, 1.6))  # fmt: skip
        assert "1.5x of torch" in page.ask("/live").text
        assert list_running(web_project)[0].is_running

    ended = list_running(web_project)[0]

    assert (ended.is_running, ended.end) == (False, "done")
    assert "2 before us" not in page.ask("/live").text


def test_a_command_that_fails_ends_with_its_reason(web_project):
    with suppress(KeyboardInterrupt), publish_progress(web_project, "bench x"):
        record_event("result", text="built", name="build", status="ok", seconds=1.0)
        raise KeyboardInterrupt

    assert list_running(web_project)[0].end == "interrupted"


def test_a_command_that_does_nothing_leaves_nothing(project):
    with publish_progress(project, "bench no_such_kernel"):
        pass
    with suppress(KeyboardInterrupt), publish_progress(project, "bench refused"):
        report_progress("environment")
        raise KeyboardInterrupt

    assert not (project / ".kb").exists()


def test_nothing_is_written_where_there_is_no_project(tmp_path):
    with publish_progress(tmp_path, "profile x"):
        report_progress("one step")

    assert list(tmp_path.iterdir()) == []


def test_scripts_are_few_and_together_below_100_kb():
    names = {name for of_section in SCRIPTS.values() for name in of_section}

    assert sum(len(read_static(name)) for name in names) < 100_000


@pytest.fixture(scope="module")
def hostile_project(tmp_path_factory):
    """A project whose goals, notes, results and logs are the hostile texts, entered."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "sessions").mkdir()
    joined = "\n".join(HOSTILE_TEXTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ids = fill_project(folder, joined[:280])
        for at, text in enumerate(HOSTILE_TEXTS):
            with publish_progress(folder, text):
                report_progress(text, "notice")
                record_event("result", text=text, name=text, status="ok", seconds=1.0)
            checklist.mark_item(SESSION, "claims-verified", None, f"{at} {text}"[:600])
        yield ids


def test_hostile_texts_of_a_project_stay_texts(hostile_project):
    site = Site("project", writes=True, form_key="k")
    pages = (
        start.show_start({}), history.show_history({}),
        history.show_kernel_history({"name": KERNEL}), checklist.show_checklist({}),
        live.show_live({}), history.show_attempt({"name": hostile_project[1]}),
        start.show_search({"q": "<script>"}),
    )  # fmt: skip
    for page in pages:
        text = site.fill(page)
        read_page(text)

        assert "\u202e" not in text
        assert "\x1b" not in text


@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=range(len(HOSTILE_TEXTS)))
def test_hostile_words_of_an_address_stay_texts(text):
    site = Site(text, writes=True, form_key="k")
    query = {"speedup": text, "metrics": f"over_fetch={text}", "gpu": text, "tree": text}

    read_page(site.fill(decision.show_decision(query)))


def test_a_hostile_report_stays_text(page):
    rows = TABLE.read_text("utf-8").splitlines()
    name = "softmax<script>document.title='owned'</script>"
    changed = [row.replace("softmax_kernel", name).replace("row_softmax", name) for row in rows]
    answer = page.send("/decision/report", text="\n".join(changed))
    shown = page.ask(answer.headers["location"])

    read_page(shown.text)
