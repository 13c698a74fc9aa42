"""One project and one server for the tests of the page: a server loads for some seconds."""

import pytest
from broken_kernels import make_broken_kernel
from web_page import fill_project, serve_project


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """A project with a history, an open session and a kernel that compiles, and its server."""
    folder = tmp_path_factory.mktemp("served") / "project"
    (folder / "sessions").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("KB_DATABASE", raising=False)
        make_broken_kernel(folder, "right")
        attempts = fill_project(folder)
    with serve_project(folder) as client:
        yield folder, client, attempts


@pytest.fixture(scope="module")
def web_project(served):
    """That project, entered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(served[0])
        patch.delenv("KB_DATABASE", raising=False)
        yield served[0]


@pytest.fixture(scope="module")
def page(served, web_project):
    """A client of its server."""
    return served[1]


@pytest.fixture(scope="module")
def attempts(served):
    """The ids of its two attempts."""
    return served[2]
