"""Files of a folder that are uploaded with a job, files left out, and faults."""
# ruff: noqa: E501 - one line a row

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from trainyard.client.jobs import cautions, tree
from trainyard.client.jobs.contents import Tree


@pytest.fixture
def src(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    return folder


def write(folder: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def program(folder: Path) -> Tree:
    return tree.tree_of_folder(folder, "src", is_program=True)


def data(folder: Path) -> Tree:
    return tree.tree_of_folder(folder, "src", is_program=False)


def paths(found: Tree) -> set[str]:
    return {file.path for file in found.files}


def links(found: Tree) -> dict[str, str]:
    return {link.path: link.target for link in found.links}


def left_out(found: Tree) -> dict[str, str]:
    return {each.path: each.why for each in found.left_out}


# --- links
def test_a_linked_folder_from_elsewhere_goes_along_as_what_it_leads_to(src: Path) -> None:
    write(src.parent, "shared/util.py", "shared/deep/more.py")
    (src / "common").symlink_to("../shared")
    (src / "one.py").symlink_to(src.parent / "shared" / "util.py")
    found = program(src)
    assert paths(found) == {"train.py", "common/util.py", "common/deep/more.py", "one.py"}
    assert (found.links, found.faults) == ((), ())


def test_a_link_that_stays_inside_stays_a_link(src: Path) -> None:
    write(src, "v1/model.py")
    (src / "current").symlink_to("v1")
    (src / "absolute.py").symlink_to(src / "v1" / "model.py")
    (src / "v1" / "up.py").symlink_to("../train.py")
    found = program(src)
    assert links(found) == {"current": "v1", "absolute.py": "v1/model.py", "v1/up.py": "../train.py"}
    assert paths(found) == {"train.py", "v1/model.py"}


def test_data_have_no_links_so_that_each_stands_for_what_it_leads_to(src: Path) -> None:
    write(src, "v1/a.csv")
    (src / "current").symlink_to("v1")
    assert paths(data(src)) == {"train.py", "v1/a.csv", "current/a.csv"}


def test_links_in_a_circle_end(src: Path) -> None:
    write(src.parent, "a/a.py", "b/b.py")
    (src.parent / "a" / "to_b").symlink_to("../b")
    (src.parent / "b" / "to_a").symlink_to("../a")
    (src / "a").symlink_to("../a")
    (src / "here").symlink_to(".")
    (src / "itself").symlink_to("itself")
    found = program(src)
    assert paths(found) == {"train.py", "a/a.py", "a/to_b/b.py"}
    assert links(found) == {"here": ".", "a/to_b/to_a": ".."}
    assert left_out(found) == {"itself": "a link that leads back to itself"}
    of_data = data(src)
    assert paths(of_data) == paths(found)
    assert "here" in left_out(of_data)


def test_a_link_that_leads_nowhere_is_named(src: Path) -> None:
    (src / ".#train.py").symlink_to("me@host.1234")
    found = program(src)
    assert found.faults == ()
    assert left_out(found) == {".#train.py": "a link that leads nowhere"}


def test_a_link_to_a_file_that_stays_behind_goes_along_as_the_file(src: Path) -> None:
    write(src, ".git/annex/object")
    (src / "weights.pt").symlink_to(".git/annex/object")
    found = program(src)
    assert paths(found) == {"train.py", "weights.pt"}
    assert found.links == ()


@pytest.mark.parametrize("target", ["/", "..", "/proc"])
@pytest.mark.parametrize("look", [program, data])
def test_a_link_to_everything_is_a_fault(src: Path, target: str, look: Callable[[Path], Tree]) -> None:
    (src / "all").symlink_to(target)
    (fault,) = look(src).faults
    assert fault.startswith("src/all is a link to ")
    assert "echo /all >> src/.trainyardignore" in fault


def test_a_link_to_something_huge_is_refused_with_its_size(
    src: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(src.parent, *(f"many/{number}.py" for number in range(30)))
    (src / "many").symlink_to("../many")
    monkeypatch.setattr(tree, "MOST_MEMBERS", 20)
    found = program(src)
    assert "src/many is a link to" in found.faults[0]
    assert "21 files and 21 B were counted" in found.faults[0]
    assert paths(found) == {"train.py"}


# --- files left out
@pytest.mark.parametrize(
    "name",
    [
        "__pycache__/a.pyc", "train.pyc", ".git/HEAD", "node_modules/a/b.js", ".tox/py/x", ".nox/y", ".mypy_cache/z",
        ".pytest_cache/z", ".ruff_cache/z", ".ipynb_checkpoints/z", ".DS_Store", ".terraform/z",
        "lib/__pycache__/x.pyc",
    ],
)  # fmt: skip
def test_what_tools_make_stays_behind_and_that_is_said(src: Path, name: str) -> None:
    write(src, name)
    found = program(src)
    assert paths(found) == {"train.py"}
    assert cautions.notes(found)[0].startswith("left out of src: ")


def test_an_environment_of_any_name_stays_behind_by_what_is_in_it(src: Path) -> None:
    write(src, "env/pyvenv.cfg", "env/lib/site-packages/numpy.py", "tools/conda-meta/history", "venv/mine.py")
    found = program(src)
    assert paths(found) == {"train.py", "venv/mine.py"}
    assert left_out(found) == {"env/": "a virtual environment", "tools/": "a conda environment"}
    assert cautions.notes(found) == (
        "left out of src: env (a virtual environment), tools (a conda environment)",
    )


def test_a_compiled_module_without_its_text_goes_along(src: Path) -> None:
    write(src, "closed.pyc")
    assert "closed.pyc" in paths(program(src))


@pytest.mark.parametrize(
    ("name", "is_secret"), [(".env", True), (".env.local", True), (".env.example", False)]
)
def test_a_file_of_secrets_stays_behind_with_the_way_to_send_secrets(
    src: Path, name: str, is_secret: bool
) -> None:
    write(src, name)
    found = program(src)
    assert (name not in paths(found)) is is_secret
    assert ("program.secrets" in " ".join(cautions.notes(found))) is is_secret


def test_git_ignores_at_every_level_and_from_above(src: Path) -> None:
    (src.parent / ".git").mkdir()
    (src.parent / ".gitignore").write_text("*.log\n/src/top.txt\n")
    (src / ".gitignore").write_text("data/\n*.pt\n!keep.pt\n")
    (src / "lib").mkdir()
    (src / "lib" / ".gitignore").write_text("!wanted.log\n/local\n")
    write(
        src,
        "data/big.csv",
        "w.pt",
        "keep.pt",
        "a.log",
        "top.txt",
        "lib/wanted.log",
        "lib/local",
        "lib/b/local",
    )
    found = program(src)
    assert paths(found) == {
        "train.py", "keep.pt", ".gitignore", "lib/.gitignore", "lib/wanted.log", "lib/b/local",
    }  # fmt: skip
    note = cautions.notes(found)[0]
    assert note.startswith("left out of src by .gitignore: ")
    assert "echo '!/" in note


def test_what_git_keeps_goes_along_although_it_is_ignored(src: Path, git: Callable[..., None]) -> None:
    (src / ".gitignore").write_text("weights/\n")
    write(src, "weights/base.pt", "weights/own.pt")
    git("init", "-q")
    git("add", "-f", "weights/base.pt")
    assert paths(program(src)) == {"train.py", ".gitignore", "weights/base.pt"}


def test_a_folder_that_git_ignores_as_a_whole_goes_along_when_a_job_names_it(src: Path) -> None:
    (src.parent / ".git").mkdir()
    (src.parent / ".gitignore").write_text("src/\n")
    assert paths(program(src)) == {"train.py"}


def test_data_do_not_follow_git(src: Path) -> None:
    (src / ".gitignore").write_text("*.csv\n")
    write(src, "a.csv")
    assert "a.csv" in paths(data(src))


def test_our_own_ignore_file_takes_back_what_git_and_custom_leave_out(src: Path) -> None:
    (src / ".gitignore").write_text("data/\n*.pt\n")
    (src / ".trainyardignore").write_text("!data/want.csv\n!/w.pt\n!.env\nnotes/\n")
    write(src, "data/big.csv", "data/want.csv", "w.pt", "x.pt", ".env", "notes/a.txt")
    assert paths(program(src)) == {
        "train.py", ".gitignore", ".trainyardignore", "data/want.csv", "w.pt", ".env",
    }  # fmt: skip


def test_a_line_that_git_does_not_understand_is_skipped(src: Path) -> None:
    (src / ".gitignore").write_bytes(b"!\n*.pt\nr\xe9sum\xe9\n")
    write(src, "w.pt")
    assert paths(program(src)) == {"train.py", ".gitignore"}


def test_empty_folders_go_along(src: Path) -> None:
    (src / "outputs" / "models").mkdir(parents=True)
    (src / "logs").mkdir()
    (src / ".gitignore").write_text("*.log\n")
    write(src, "logs/old.log")
    assert program(src).empty_folders == ("logs", "outputs/models")


# --- faults
def odd(name: bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("x")

    return make


def a_socket(folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder)
    try:
        made = socket.socket(socket.AF_UNIX)
        made.bind("sock")
        made.close()
    finally:
        os.chdir(here)


FAULTS: list[tuple[str, Callable[[Path], None], tuple[str, ...]]] = [
    ("Latin-1", odd(b"r\xe9sum\xe9.txt"), ("src/r\\xe9sum\\xe9.txt", "not UTF-8", "mv $'src/r\\351sum\\351.txt' 'src/résumé.txt'",
     "echo '/r?sum?.txt'")),
    ("a control character", odd(b"a\x01b"), ("src/a\\x01b", "control character", "mv $'src/a\\001b' src/a_b")),
    ("a line break", odd(b"a\nb"), ("src/a\\nb", "control character", "src/a_b")),
    ("a pipe", lambda folder: os.mkfifo(folder / "p"), ("src/p is a pipe", "echo /p >> src/.trainyardignore")),
    ("a socket", a_socket, ("src/sock is a socket",)),
    ("too deep", lambda folder: write(folder, "/".join(["d"] * 70) + "/x"), ("more than 64 folders deep",)),
    ("too long a path", lambda folder: write(folder, "/".join(["n" * 200] * 6) + "/x"), ("too long", "shorter")),
]  # fmt: skip


@pytest.mark.parametrize("look", [program, data])
@pytest.mark.parametrize(("make", "says"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_what_cannot_be_sent_is_named_with_what_to_type(
    src: Path, make: Callable[[Path], None], says: tuple[str, ...], look: Callable[[Path], Tree]
) -> None:
    make(src)
    (fault,) = look(src).faults
    assert all(each in fault for each in says), fault


def test_all_faults_are_found_at_once(src: Path) -> None:
    for name in ("p", "q", "r"):
        os.mkfifo(src / name)
    odd(b"\xff")(src)
    assert len(program(src).faults) == 4


def test_what_is_wrong_may_be_left_out(src: Path) -> None:
    os.mkfifo(src / "p")
    odd(b"r\xe9sum\xe9.txt")(src)
    (src / ".trainyardignore").write_text("/p\n/r?sum?.txt\n")
    assert program(src).faults == ()


def test_a_file_that_may_not_be_read_is_a_fault(src: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(src, "mine.txt")
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("mine.txt"))
    (fault,) = program(src).faults
    assert "src/mine.txt is a file that you may not read; chmod u+r src/mine.txt" in fault


def test_a_folder_that_may_not_be_read_is_a_fault(src: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (src / "theirs").mkdir()
    scan = os.scandir

    def refusing(path: Path) -> object:
        if Path(path).name == "theirs":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    exists = Path.exists

    def refusing_too(path: Path) -> bool:
        if path.parent.name == "theirs":
            raise PermissionError(13, "Permission denied")
        return exists(path)

    monkeypatch.setattr(os, "scandir", refusing)
    monkeypatch.setattr(Path, "exists", refusing_too)
    (fault,) = program(src).faults
    assert "src/theirs is a folder that you may not read; chmod u+rx src/theirs" in fault


@pytest.mark.parametrize(
    "name",
    ["👨‍👩‍👧.py", "全角　空白.txt", "a\u00a0b.txt", "עברית\u200f.txt", "é.txt", "n" * 255, "a'b\"c $x.txt"],
)
def test_names_in_any_script_go_along(src: Path, name: str) -> None:
    write(src, name)
    found = program(src)
    assert (name in paths(found), found.faults) == (True, ())


def test_a_folder_of_many_files_is_looked_at_in_time(src: Path) -> None:
    """The goal is 100,000 files within 2 s. The test reads 10,000 within 1 s, because the machine may be busy."""
    import time

    (src / ".gitignore").write_text("*.log\n*.tmp\nbuild/\n")
    for folder in range(100):
        write(src, *(f"d{folder}/{number}" for number in range(100)))
    begun = time.process_time()
    assert len(program(src).files) == 10_002
    assert time.process_time() - begun < 1.0
