"""A process enters a folder as its root: as root of this machine for another account, and as an ordinary user."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.container_roots import make_root
from training.host.account import Account
from training.host.container import cat, enter
from training.host.container.enter import FAILED, Entrance, Mount
from training.host.credentials import CAT_OF_HOST, configure, environment
from training.host.paths import Paths
from training.host.program.process import Program, enter_command

IS_ROOT = os.geteuid() == 0
ANOTHER = (61234, 61235)
RESTRICTED = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
SYSTEM = tuple(Mount(path, path) for path in ("/proc", "/sys", "/dev"))
ENVIRONMENT = b"PATH=/usr/bin:/bin\0GREETING=hello world\0"

pytestmark = pytest.mark.skipif(
    not IS_ROOT and RESTRICTED.exists() and RESTRICTED.read_text().strip() == "1",
    reason="this kernel lets only root create user namespaces",
)


def _start_as(account: tuple[int, int], agent: str) -> list[str]:
    """Return the words that start a command as the agent: as root, or as the account itself."""
    user, group = account
    ids = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--"]
    return ids if agent == "ordinary" and IS_ROOT else []


@pytest.fixture(params=["root", "ordinary"])
def agent(request: pytest.FixtureRequest) -> str:
    if request.param == "root" and not IS_ROOT:
        pytest.skip("only root can become another account")
    return str(request.param)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of an image with a shell."""
    return make_root(tmp_path_factory.mktemp("files"))


@pytest.fixture
def entrance(files: Path) -> Iterator[Entrance]:
    """Yield an entrance to an image with a shell. It lies in a folder that every account can reach."""
    account = ANOTHER if IS_ROOT else (os.geteuid(), os.getegid())
    folder = Path("/tmp") / f"enter-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir(mode=0o755)
    image = folder / "image"
    subprocess.run(["cp", "-a", str(files), str(image)], check=True)
    image.chmod(0o755)
    (folder / "home/data").mkdir(parents=True)
    (folder / "home/data/entry").write_text("data\n")
    (folder / "secret").write_text("secret\n")
    (folder / "secret").chmod(0o600)
    (folder / "changes").mkdir()
    if IS_ROOT:
        owner = f"{account[0]}:{account[1]}"
        subprocess.run(
            ["chown", "-Rh", owner, str(image), str(folder / "home"), str(folder / "changes")], check=True
        )
    home = "/var/lib/trainyard/home"
    yield Entrance(
        image=str(image),
        changes=(str(folder / "changes"),),
        account=account,
        user=(1000, 50),
        mounts=(
            *SYSTEM,
            Mount(str(folder / "home"), home),
            Mount(str(folder / "home/data"), f"{home}/data", True),
        ),
        folder="/work/here",
        home=home,
        most_tasks=10_000,
    )
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def run(entrance: Entrance, agent: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [*_start_as(entrance.account, agent), *_python(enter_command(entrance, words))]
    done = subprocess.run(command, check=False, input=ENVIRONMENT, capture_output=True)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def _python(command: Sequence[str]) -> list[str]:
    """Return the command with an interpreter that every account may start."""
    return ["/usr/bin/python3" if command[0] == sys.executable else command[0], *command[1:]]


def shell(entrance: Entrance, agent: str, lines: str) -> "subprocess.CompletedProcess[str]":
    return run(entrance, agent, "sh", "-c", lines)


@pytest.mark.parametrize(
    ("user", "printed"), [((1000, 50), "uid=1000"), ((0, 0), "uid=0"), ((77, 88), "uid=77")]
)
def test_id_prints_the_images_user_and_the_exit_code_comes_back(
    entrance: Entrance, agent: str, user: tuple[int, int], printed: str
) -> None:
    done = shell(replace(entrance, user=user), agent, "id; pwd; echo $GREETING; exit 42")
    assert done.returncode == 42, done.stderr
    assert printed in done.stdout
    assert "/work/here\nhello world\n" in done.stdout


def test_an_unknown_user_gets_a_name(entrance: Entrance, agent: str) -> None:
    done = shell(replace(entrance, user=(77, 88)), agent, "id; cat /etc/passwd")
    assert "uid=77(trainyard) gid=88(trainyard)" in done.stdout, done.stderr
    assert "ann:x:1000" in done.stdout


def test_all_of_the_image_is_writable_and_the_image_stays_as_it_is(entrance: Entrance, agent: str) -> None:
    lines = "set -e; echo new >>/etc/passwd; touch /root/x /new; rm /bin/sleep; rm -r /home/ann; echo done"
    done = shell(entrance, agent, lines)
    assert done.stdout == "done\n", done.stderr
    image = Path(entrance.image)
    assert (image / "bin/sleep").exists()
    assert "new" not in (image / "etc/passwd").read_text()
    assert sorted(path.name for path in image.iterdir() if path.name.startswith(("new", ".trainyard"))) == []


def test_the_home_is_the_hosts_at_its_own_path_and_data_are_read_only(entrance: Entrance, agent: str) -> None:
    done = shell(
        entrance,
        agent,
        "cd /var/lib/trainyard/home; cat data/entry; touch made; touch data/x; ls /dev/shm >/dev/null",
    )
    assert done.stdout == "data\n"
    assert "Read-only file system" in done.stderr
    made = Path(entrance.mounts[-2].source, "made").stat()
    assert (made.st_uid, made.st_gid) == entrance.account


def test_nothing_of_the_host_is_visible_and_no_right_of_root_remains(entrance: Entrance, agent: str) -> None:
    folder = Path(entrance.image).parent
    lines = f"""
cat {folder}/secret; ls -A / | sed -n /trainyard/p; mount -t tmpfs none /home; chown 5:5 /etc/passwd
cat /proc/1/environ >/dev/null; sed -n '/^Cap/p; /^NoNewPrivs/p' /proc/self/status; kill -KILL {os.getpid()}"""
    done = shell(replace(entrance, user=(0, 0)), agent, lines)
    rights = dict(line.split() for line in done.stdout.splitlines())
    assert rights.pop("NoNewPrivs:") == "1"
    assert rights
    assert set(rights.values()) == {"0" * 16}
    for reason in ("secret: No such file", "must be superuser|permission denied", "Invalid argument"):
        assert any(each in done.stderr for each in reason.split("|")), done.stderr
    if IS_ROOT:
        assert done.returncode != 0
        assert "Operation not permitted" in done.stderr


def test_an_image_with_links_in_the_place_of_mounts_changes_nothing_outside(
    entrance: Entrance, agent: str
) -> None:
    image = Path(entrance.image)
    outside = image.parent / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    (image / "var").symlink_to(outside)
    (image / "proc").symlink_to("/sys/../proc-of-image")
    done = shell(entrance, agent, "cat /var/lib/trainyard/home/data/entry; cat /proc/self/comm")
    assert list(outside.iterdir()) == []
    assert done.stdout == "data\ncat\n", done.stderr


def test_an_optional_file_that_the_host_lacks_is_left_out_and_any_other_ends_the_start(
    entrance: Entrance, agent: str
) -> None:
    optional = replace(entrance, mounts=(*entrance.mounts, Mount("/no/such", "/no/such", optional=True)))
    assert shell(optional, agent, "exit 3").returncode == 3
    needed = shell(
        replace(entrance, mounts=(*entrance.mounts, Mount("/no/such", "/no/such"))), agent, "exit 3"
    )
    assert needed.returncode == FAILED
    assert "/no/such cannot be shown in it" in needed.stderr


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["nothing"], 127, "nothing: command not found: it is in no folder of PATH (/usr/bin:/bin)"),
        (["/bin/nothing"], 127, "/bin/nothing: command not found: the image has no such file"),
        (["/etc/passwd"], 126, "/etc/passwd: cannot execute: Permission denied"),
        (["/bin/foreign"], 126, "/bin/foreign: exec format error: it is a program for another architecture"),
        (
            ["/bin/script"],
            127,
            "/bin/script: cannot execute: the image lacks /no/python, which /bin/script needs",
        ),
    ],
)
def test_a_program_that_cannot_be_started_has_a_shells_exit_code_and_a_reason(
    entrance: Entrance, agent: str, words: list[str], code: int, reason: str
) -> None:
    for name, content in (("foreign", b"\x7fELF\x02\x01\x01" + bytes(57)), ("script", b"#!/no/python -u\n")):
        (Path(entrance.image) / "bin" / name).write_bytes(content)
        (Path(entrance.image) / "bin" / name).chmod(0o755)
    done = run(entrance, agent, *words)
    assert (done.returncode, reason in done.stderr) == (code, True), done.stderr


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("work", "container: the working directory /work/here is not a folder of the image: Not a directory"),
        (
            "dev",
            "container: the image has /dev, where programs find /dev: File exists; remove it from the image",
        ),
        ("var/lib", "container: the image has /var/lib"),
    ],
)
def test_a_file_in_the_place_of_a_folder_is_the_images_own_fault(
    entrance: Entrance, agent: str, path: str, reason: str
) -> None:
    file = Path(entrance.image, path)
    file.parent.mkdir(exist_ok=True)
    file.touch()
    done = run(entrance, agent, "/bin/id")
    assert done.returncode == 126
    assert reason in done.stderr


def test_an_image_without_a_shell_runs_its_only_program(entrance: Entrance, agent: str) -> None:
    for path in Path(entrance.image, "bin").iterdir():
        if path.name != "id":
            path.unlink()
    assert "uid=1000" in run(entrance, agent, "/bin/id").stdout


def test_an_image_without_cat_reads_the_credentials_with_the_hosts(
    entrance: Entrance, agent: str, tmp_path: Path
) -> None:
    root = Path(entrance.image)
    assert not cat.is_missing(root)
    for name in ("bin/cat", "lib", "lib64"):
        subprocess.run(["rm", "-rf", str(root / name)], check=True)
    assert cat.is_missing(root)
    with_cat = replace(entrance, mounts=(*entrance.mounts, *cat.mounts()))
    done = run(with_cat, agent, *CAT_OF_HOST.split(), f"{entrance.home}/data/entry")
    assert (done.returncode, done.stdout) == (0, "data\n"), done.stderr
    paths = Paths(tmp_path)
    paths.run.mkdir(parents=True)
    configure(paths, Account(os.geteuid(), os.getegid()))
    process = f"credential_process = {CAT_OF_HOST} {paths.credentials}"
    assert process in paths.aws_config_without_cat.read_text()
    wanted = str(paths.aws_config_without_cat)
    assert environment(paths, has_cat=False)["AWS_CONFIG_FILE"] == wanted


def test_a_folder_that_cannot_hold_changes_is_passed_over(entrance: Entrance, agent: str) -> None:
    folders = ("/proc/no", *entrance.changes)
    assert shell(replace(entrance, changes=folders), agent, "rm /bin/sleep; exit 7").returncode == 7
    done = shell(replace(entrance, changes=("/proc/no",)), agent, "exit 7")
    assert done.returncode == FAILED
    assert "no folder can hold the changes of the program (/proc/no: " in done.stderr


def test_sigterm_reaches_the_program_itself_under_its_own_process_id(
    entrance: Entrance, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    program = Program.start(
        ["sh", "-c", "trap 'echo saved; exit 9' TERM; echo pid $$; while :; do sleep 0.1; done"],
        account=Account(*entrance.account),
        folder=tmp_path,
        env={"PATH": "/bin"},
        log=log,
        exit_file=tmp_path / "exit",
        most_tasks=10_000,
        entrance=replace(entrance, user=(0, 0)),
    )
    while "pid" not in log.read_text() and program.exit_code() is None:
        time.sleep(0.05)
    assert f"pid {program.itself()}\n" in log.read_text()
    program.ask_to_leave()
    while (code := program.exit_code()) is None:
        time.sleep(0.05)
    assert (code, "saved" in log.read_text()) == (9, True), log.read_text()
    program.kill()


def test_every_process_of_the_account_can_be_ended(entrance: Entrance) -> None:
    if not IS_ROOT:
        pytest.skip("only root has an account for programs")
    command = enter_command(entrance, ["sh", "-c", "sleep 1000 & echo ready; sleep 1000"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdin
        assert started.stdout
        started.stdin.write(ENVIRONMENT)
        started.stdin.close()
        assert started.stdout.readline() == b"ready\n"
        assert Path(f"/proc/{started.pid}").stat().st_uid == entrance.account[0]
        Account(*entrance.account).end_all()
        assert started.wait() == -signal.SIGKILL


def test_the_description_of_an_entrance_survives_its_way_to_the_process(entrance: Entrance) -> None:
    assert enter.Entrance.of_json(entrance.to_json()) == entrance
