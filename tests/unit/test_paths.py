"""Which folder is the project: never one above the repository, never one by a folder's name."""

from kernelkb.safety.paths import project_root


def find_root_from(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return project_root(str(folder))


def test_nothing_above_the_repository_is_the_project(tmp_path):
    (tmp_path / "sessions").mkdir()
    (tmp_path / "mine" / ".git").mkdir(parents=True)

    assert find_root_from(tmp_path / "mine" / "src") == str(tmp_path / "mine")


def test_a_worktree_whose_git_is_a_file_is_a_repository(tmp_path):
    (tmp_path / ".kb").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".git").write_text("gitdir: elsewhere")

    assert find_root_from(tmp_path / "mine" / "src") == str(tmp_path / "mine")


def test_a_folder_of_sources_called_kernels_is_no_mark(tmp_path):
    (tmp_path / "kernels" / "add").mkdir(parents=True)
    (tmp_path / "kernels" / "add" / "kernel.yaml").touch()
    (tmp_path / "csrc" / "kernels" / "more").mkdir(parents=True)
    (tmp_path / "csrc" / "kernels" / "add.cu").touch()

    assert find_root_from(tmp_path / "csrc") == str(tmp_path)


def test_a_project_inside_a_repository_is_nearer_than_the_repository(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "part" / "sessions").mkdir(parents=True)

    assert find_root_from(tmp_path / "part" / "src") == str(tmp_path / "part")


def test_without_marks_and_repository_the_folder_itself_is_the_project(tmp_path):
    assert find_root_from(tmp_path / "a" / "b") == str(tmp_path / "a" / "b")
