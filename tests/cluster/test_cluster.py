"""Lanes on pretend hosts: real schedulers, workers, certificates, ssh; processes are killed."""

import gc
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import cluster_jobs
import psutil
import pytest

from kernelkb.cluster.choice import TlsFiles, parse_workers
from kernelkb.cluster.cluster import open_cluster
from kernelkb.cluster.tasks import LanesLostError, SchedulerLostError, WorkerDiedError
from kernelkb.errors import BadValueError, EnvironmentGapError

SUPPORT = Path(cluster_jobs.__file__).parent
KB = [sys.executable, "-c", "from kernelkb.cli import start; raise SystemExit(start())"]
# Dask closes its sockets and loops in threads that outlive a test.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def _importable_jobs():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SUPPORT))
        yield
    # Dask leaves sockets to the garbage collector where a scheduler is gone.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(3):
            gc.collect()


@pytest.fixture(scope="module")
def four_lanes():
    with open_cluster(parse_workers("auto"), pretend_count=4) as cluster:
        yield cluster


def wait_until(condition, limit_s=60):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.05)


def read_lines(path):
    return path.read_text("utf-8").split("\n")[:-1] if path.exists() else []


def list_descendants():
    return psutil.Process().children(recursive=True)


# --- one host


def test_lanes_say_what_they_are(four_lanes):
    lanes = four_lanes.lanes
    assert len({one.uuid for one in lanes}) == len(lanes) == 4
    assert {one.model for one in lanes} == {"pretend"}
    assert four_lanes.build_slots >= 1


def test_what_is_timed_gets_a_core_before_what_compiles(four_lanes):
    build = four_lanes.submit_build(cluster_jobs.get_child_niceness)
    timed = four_lanes.submit_timed("pretend", cluster_jobs.get_child_niceness)
    list(four_lanes.as_completed())

    assert build.result() == max(10, timed.result())


def test_a_task_that_needs_a_failed_build_ends_with_its_error(four_lanes):
    build = four_lanes.submit_build(cluster_jobs.fail, "no")
    assert four_lanes.wait() == [build]
    late = four_lanes.submit_timed("pretend", cluster_jobs.measure, build, 1)

    assert four_lanes.wait(30) == [late]
    assert late.error is build.error


def test_each_result_arrives_once_through_builds(four_lanes):
    builds = [four_lanes.submit_build(cluster_jobs.produce, size) for size in range(6)]
    for number, one in enumerate(builds):
        four_lanes.submit_timed("pretend", cluster_jobs.measure, one, number)
    ended = list(four_lanes.as_completed())
    results = sorted(one.result()[:2] for one in ended if one.kind == "timed")
    assert len(ended) == 12
    assert results == [(number, number) for number in range(6)]


def test_a_lane_never_runs_two_at_once(four_lanes, tmp_path):
    first = four_lanes.lanes[0].uuid
    for number in range(12):
        four_lanes.submit_timed(first, cluster_jobs.hold_alone, tmp_path, number)
        four_lanes.submit_timed(None, cluster_jobs.hold_alone, tmp_path, number)
    assert [one.error for one in four_lanes.as_completed()] == [None] * 24


def test_what_a_function_raises_is_the_tasks_error(four_lanes):
    build = four_lanes.submit_build(cluster_jobs.fail, "bad flag")
    timed = four_lanes.submit_timed(None, cluster_jobs.measure, build, 1)
    assert {*four_lanes.as_completed()} == {build, timed}
    for one in (build, timed):
        with pytest.raises(ValueError, match="bad flag"):
            one.result()


def test_a_cancelled_task_is_not_delivered(four_lanes, tmp_path):
    lane = four_lanes.lanes[0].uuid
    gate, started = tmp_path / "gate", tmp_path / "started"
    running = four_lanes.submit_timed(lane, cluster_jobs.wait_for, gate, started)
    queued = four_lanes.submit_timed(lane, cluster_jobs.wait_for, gate, started)
    wait_until(lambda: read_lines(started))
    four_lanes.cancel(queued)
    gate.touch()
    assert list(four_lanes.as_completed()) == [running]
    assert running.result() == 0
    assert queued.cancelled


@pytest.mark.slow
def test_a_task_that_kills_its_worker_costs_one_worker_once(four_lanes, tmp_path):
    before = {one.uuid for one in four_lanes.lanes}
    log, deaths = tmp_path / "log", tmp_path / "deaths"
    build = four_lanes.submit_build(cluster_jobs.produce, 3)
    for number in range(20):
        four_lanes.submit_timed(None, cluster_jobs.measure, build, number, log)
    killer = four_lanes.submit_timed(None, cluster_jobs.end_worker, build, deaths)
    for number in range(20, 40):
        four_lanes.submit_timed(None, cluster_jobs.measure, build, number, log)
    ended = list(four_lanes.as_completed())
    assert isinstance(killer.error, WorkerDiedError)
    assert read_lines(deaths) == ["end"]
    assert [one for one in ended if one.error] == [killer]
    measured = [one.result()[1] for one in ended if one.kind == "timed" and one is not killer]
    assert sorted(measured) == list(range(40))
    assert {one.uuid for one in four_lanes.lanes} == before


@pytest.mark.slow
def test_what_waits_behind_a_killer_on_its_lane_is_not_blamed(four_lanes):
    lane = four_lanes.lanes[1].uuid
    killers = [four_lanes.submit_timed(lane, cluster_jobs.end_worker) for _ in range(2)]
    good = [four_lanes.submit_timed(lane, cluster_jobs.measure, b"", n) for n in range(5)]
    ended = list(four_lanes.as_completed())
    assert len(ended) == 7
    assert all(isinstance(one.error, WorkerDiedError) for one in killers)
    assert [one.result()[1] for one in good] == list(range(5))


@pytest.mark.slow
def test_a_worker_killed_from_outside_is_named_by_its_task(four_lanes, tmp_path):
    started = tmp_path / "started"
    task = four_lanes.submit_timed(None, cluster_jobs.wait_for, tmp_path / "never", started)
    wait_until(lambda: read_lines(started))
    os.kill(int(read_lines(started)[0].split()[0]), signal.SIGKILL)
    assert four_lanes.wait() == [task]
    assert isinstance(task.error, WorkerDiedError)


@pytest.mark.slow
def test_a_delivered_measurement_is_not_repeated_when_its_worker_dies(four_lanes, tmp_path):
    log, lane = tmp_path / "log", four_lanes.lanes[0].uuid
    task = four_lanes.submit_timed(lane, cluster_jobs.measure, b"", 1, log)
    assert four_lanes.wait() == [task]
    killer = four_lanes.submit_timed(lane, cluster_jobs.end_worker)
    last = four_lanes.submit_timed(lane, cluster_jobs.measure, b"", 2, log)
    assert {*four_lanes.as_completed()} == {killer, last}
    numbers = [line.split()[0] for line in read_lines(log)]
    assert len(numbers) == 2, read_lines(log)
    assert task.result()[1] == 1


@pytest.mark.slow
def test_of_builds_that_share_a_worker_only_the_killer_is_blamed(four_lanes, tmp_path):
    gate, started = tmp_path / "gate", tmp_path / "started"
    good = four_lanes.submit_build(cluster_jobs.wait_for, gate, started, 7)
    wait_until(lambda: read_lines(started))
    bad = four_lanes.submit_build(cluster_jobs.end_worker)
    timed = four_lanes.submit_timed(None, cluster_jobs.measure, b"", 1)
    gate.touch()
    assert {*four_lanes.as_completed()} == {good, bad, timed}
    assert good.result() == 7
    assert isinstance(bad.error, WorkerDiedError)


def test_nothing_listens_beyond_loopback(four_lanes):
    processes = [psutil.Process(), *list_descendants()]
    listening = [
        one.laddr.ip
        for process in processes
        for one in process.net_connections()
        if one.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 6
    assert set(listening) == {"127.0.0.1"}


def test_no_key_is_in_a_command_line_or_environment(four_lanes):
    for process in list_descendants():
        assert "PRIVATE KEY" not in " ".join([*process.cmdline(), *process.environ().values()])


def test_a_client_without_the_certificate_is_refused(four_lanes):
    address = four_lanes._connection.client.scheduler.address
    choice = parse_workers(address.replace("tls://", "tcp://"))
    with pytest.raises(SchedulerLostError), open_cluster(choice, scheduler_s=1):
        pass
    with (
        pytest.raises(BadValueError, match="certificate"),
        open_cluster(parse_workers(address), scheduler_s=1),
    ):
        pass


def test_a_lane_that_does_not_exist_is_an_error(four_lanes):
    four_lanes._lanes_s = 0.5
    task = four_lanes.submit_timed("GPU-none", cluster_jobs.measure, b"", 1)
    four_lanes.wait()
    four_lanes._lanes_s = 60
    assert isinstance(task.error, LanesLostError)


def test_a_timed_task_of_a_cancelled_build_ends(four_lanes, tmp_path):
    gate, started = tmp_path / "gate", tmp_path / "started"
    build = four_lanes.submit_build(cluster_jobs.wait_for, gate, started)
    timed = four_lanes.submit_timed(None, cluster_jobs.measure, build, 1)
    four_lanes.cancel(build)
    gate.touch()
    assert list(four_lanes.as_completed()) == [timed]
    with pytest.raises(RuntimeError, match="cancelled"):
        timed.result()


# --- a scheduler with an address, and hosts that join it


class Site:
    """A scheduler by ``dask scheduler`` and hosts by ``kb lab worker``, each a process group."""

    def __init__(self, folder):
        from distributed.security import Security

        security = Security.temporary()
        self.files = TlsFiles(*(folder / name for name in ("ca.pem", "cert.pem", "key.pem")))
        for path, text in zip(
            self.files,
            (security.tls_ca_file, security.tls_worker_cert, security.tls_worker_key),
            strict=True,
        ):
            path.touch(0o600)
            path.write_text(text)
        self.port = find_free_port()
        self.address = f"tls://127.0.0.1:{self.port}"
        self.processes = []
        self.log = (folder / "log").open("a")

    def start(self, *command):
        process = subprocess.Popen(
            command, stdout=self.log, stderr=self.log, start_new_session=True
        )
        self.processes.append(process)
        return process

    @property
    def options(self):
        ca_file, cert, key = map(str, self.files)
        return ["--tls-ca-file", ca_file, "--tls-cert", cert, "--tls-key", key]

    def start_scheduler(self):
        program = "from dask.__main__ import main; main()"
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        return self.start(sys.executable, "-c", program, "scheduler", *place, *self.options)

    def start_host(self, lanes):
        return self.start(*KB, "worker", self.address, "--pretend", str(lanes), *self.options)


def find_free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def kill_group(process):
    for one in [*psutil.Process(process.pid).children(recursive=True), process]:
        one.kill()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    for process in site.processes:
        if process.poll() is None:
            kill_group(process)
        process.wait()
    site.log.close()


@pytest.mark.slow
def test_hosts_and_scheduler_may_die_and_nothing_is_lost(site, tmp_path):
    scheduler = site.start_scheduler()
    hosts = [site.start_host(1), site.start_host(1)]
    gate, started = tmp_path / "gate", tmp_path / "started"
    choice = parse_workers(site.address)
    with open_cluster(choice, tls=site.files, scheduler_s=60) as cluster:
        wait_until(lambda: len(cluster.lanes) == 2)
        tasks = [
            cluster.submit_timed("pretend", cluster_jobs.wait_for, gate, started, number)
            for number in range(8)
        ]
        wait_until(lambda: len(read_lines(started)) == 2)
        kill_group(hosts[0])  # its nanny too: its task and its queue move to the other host
        assert cluster.wait(3) == []
        scheduler.kill()
        scheduler.wait()
        site.start_scheduler()
        gate.touch()
        ended = list(cluster.as_completed())
        assert sorted(map(id, ended)) == sorted(map(id, tasks))
        assert sorted(one.result() for one in ended) == list(range(8))


def test_a_scheduler_that_stays_away_is_an_error(site):
    other = "tls://127.0.0.1:1"
    with (
        pytest.raises(SchedulerLostError, match="no scheduler answers"),
        open_cluster(parse_workers(other), tls=site.files, scheduler_s=0.2),
    ):
        pass


# --- ssh


@pytest.fixture
def ssh_server(tmp_path, monkeypatch):
    if shutil.which("ssh") is None:
        pytest.skip("no ssh")
    asyncssh = pytest.importorskip("asyncssh")
    for name in ("host", "user"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        (tmp_path / name).touch(0o600)
        key.write_private_key(str(tmp_path / name))
        key.write_public_key(str(tmp_path / f"{name}.pub"))
    program = [SUPPORT / "ssh_server.py", tmp_path / "host", tmp_path / "user.pub"]
    server = subprocess.Popen(
        [sys.executable, *program, tmp_path / "commands"], stdout=subprocess.PIPE, text=True
    )
    options = ["StrictHostKeyChecking=no", f"UserKnownHostsFile={tmp_path / 'known'}"]
    words = ["ssh", "-F", "none", "-i", str(tmp_path / "user"), "-o", "LogLevel=ERROR"]
    words += [word for option in options for word in ("-o", option)]
    monkeypatch.setenv("KB_SSH_COMMAND", shlex.join(words))
    remote = shlex.join([sys.executable, str(SUPPORT / "start_kb.py")])
    monkeypatch.setenv("KB_REMOTE_COMMAND", shlex.quote(remote))  # ssh has a shell read it again
    yield int(server.stdout.readline()), tmp_path / "commands"
    server.kill()
    server.wait()
    server.stdout.close()


@pytest.mark.slow
def test_workers_by_ssh_get_their_certificate_by_standard_input(ssh_server, tmp_path):
    port, commands = ssh_server
    with open_cluster(parse_workers(f"ssh:127.0.0.1:{port}"), pretend_count=1) as cluster:
        assert cluster._connection.client.scheduler.address.startswith("tls://127.0.0.1:")
        build = cluster.submit_build(cluster_jobs.produce, 5)
        task = cluster.submit_timed(None, cluster_jobs.measure, build, 1)
        assert {*cluster.as_completed()} == {build, task}
        assert task.result()[:2] == (5, 1)
        # The scheduler ends: all starts again, also the build that a later task needs.
        gate, started = tmp_path / "gate", tmp_path / "started"
        running = cluster.submit_timed(None, cluster_jobs.wait_for, gate, started)
        wait_until(lambda: read_lines(started))
        own = cluster._connection._cluster
        own.sync(own.scheduler.close)
        gate.touch()
        assert list(cluster.as_completed()) == [running]
        task = cluster.submit_timed(None, cluster_jobs.measure, build, 2)
        assert list(cluster.as_completed()) == [task]
        assert task.result()[:2] == (5, 2)
        worker = psutil.Process(task.result()[2])
    lines = read_lines(commands)
    assert len(lines) == 2
    assert all(line.endswith("worker -") for line in lines)
    wait_until(lambda: not worker.is_running())


def test_a_host_that_cannot_start_workers_says_why(ssh_server, monkeypatch):
    port, _ = ssh_server
    monkeypatch.setenv("KB_REMOTE_COMMAND", "no-such-kb")
    choice = parse_workers(f"ssh:127.0.0.1:{port}")
    with pytest.raises(EnvironmentGapError, match="no-such-kb"), open_cluster(choice):
        pass


# --- what the user writes


def test_the_settings_leave_dasks_configuration_as_it_was():
    program = """
from kernelkb.cluster.lanes import dask_settings
with dask_settings():
    import distributed
import dask
assert dask.config.get("distributed.scheduler.allowed-failures") == 3
distributed.security.Security()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize(
    ("text", "hosts", "port"),
    [
        ("ssh:a,b", ("a", "b"), None),
        ("ssh:me@a.example:2222", ("me@a.example",), 2222),
        ("ssh:[::1]:22", ("[::1]",), 22),
        ("ssh:[::1]", ("[::1]",), None),
    ],
)
def test_hosts_are_read(text, hosts, port):
    assert parse_workers(text)[1:3] == (hosts, port)


@pytest.mark.parametrize(
    "text",
    [
        *("", "4", "ssh:", "ssh:a,,b", "ssh:-oProxyCommand=x", "ssh:a,a", "ssh:a b", "ssh:a:0"),
        *("tcp://", "tls://a", "http://a:1", "tls://a:99999", "tcp://node1:8786"),
        "tcp://0.0.0.0:1",
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(BadValueError):
        parse_workers(text)


@pytest.mark.slow
def test_another_host_needs_an_address_to_listen_on():
    with pytest.raises(BadValueError, match="--listen"), open_cluster(parse_workers("ssh:node1")):
        pass
