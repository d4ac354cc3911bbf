"""Attack the host: its agent, root, the metadata service, and another host's port. Print each outcome."""

import argparse
import ctypes
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--neighbour", required=True, help="ADDRESS:PORT of another run's host that listens")
flags = parser.parse_args()
Attack = Callable[[], object]
PTRACE_ATTACH, PR_SET_PDEATHSIG = 16, 1
AGENT = "/var/lib/trainyard"
libc = ctypes.CDLL(None, use_errno=True)


def processes_of_root() -> dict[str, int]:
    """Return the processes of root that are visible: the agent, the keeper of the program, init."""
    found = {"its keeper": os.getppid(), "init": 1}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"training.host\0run" in line:
                found["the agent"] = int(entry.name)
    return found


def checked(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")


def shell(line: str) -> None:
    subprocess.run(["/bin/sh", "-c", line], check=True, capture_output=True, timeout=20)


def connect(address: str, port: int) -> None:
    socket.create_connection((address, port), timeout=5).close()


def attacks() -> Iterator[tuple[str, Attack]]:
    for name, pid in processes_of_root().items():
        yield f"memory of {name}", partial(Path(f"/proc/{pid}/mem").open, "rb")
        yield f"environment of {name}", Path(f"/proc/{pid}/environ").read_bytes
        yield f"files of {name}", lambda pid=pid: list(Path(f"/proc/{pid}/fd").iterdir())
        yield f"attach to {name}", lambda pid=pid: checked(libc.ptrace(PTRACE_ATTACH, pid, None, None))
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
            yield f"{number.name} to {name}", partial(os.kill, pid, number)
    yield "be root", partial(os.setuid, 0)
    yield "be root's group", partial(os.setgid, 0)
    yield "sudo", partial(shell, "sudo -n id")
    yield "su", partial(shell, "su -c id </dev/null")
    for path in (
        "/etc/passwd",
        "/etc/trainyard/host.json",
        "/opt/trainyard/agent/training/host/__main__.py",
        "/opt/trainyard/venv/bin/python",
        "/usr/local/bin/trainyard",
        "/etc/systemd/system/trainyard-host.service",
        f"{AGENT}/state.json",
        f"{AGENT}/job.json",
        f"{AGENT}/cluster-0001.json",
        f"{AGENT}/attempts/0001/process.json",
        "/run/trainyard/credentials.json",
        "/run/trainyard/aws-config",
        "/run/trainyard/agent.lock",
    ):
        yield f"write {path}", partial(open, path, "r+b")
    for folder in (
        AGENT,
        f"{AGENT}/attempts/0001",
        "/run/trainyard",
        "/run/trainyard/orders",
        "/opt/trainyard",
        "/opt/trainyard/agent",
        "/var/log/trainyard",
        "/etc/systemd/system",
        "/usr/local/bin",
    ):
        yield f"a file in {folder}", Path(folder, "theirs").touch
    yield "its home in another's place", lambda: Path(AGENT, "home").rename(Path(AGENT, "homes"))
    yield "its log in another's place", lambda: next(Path("/var/log/trainyard").iterdir()).unlink()
    yield "root's home", lambda: list(Path("/root").iterdir())
    yield "the passwords", Path("/etc/shadow").read_bytes
    yield "end the agent", partial(shell, "systemctl stop trainyard-host.service")
    yield "power off", partial(shell, "shutdown -h now")
    yield "a unit of its own", partial(shell, "systemd-run --unit=theirs id")
    yield "its own orders", partial(shell, "trainyard stop --run theirs --attempt 1")
    yield "a hold", partial(shell, "trainyard hold 2h")
    yield "the firewall", partial(shell, """echo '{"nftables": []}' | nft --json --file -""")
    yield "the metadata service", partial(urllib.request.urlopen, "http://169.254.169.254/latest/", timeout=5)
    yield "a port below 1024", lambda: socket.socket().bind(("0.0.0.0", 81))
    yield "raw packets", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    yield "mount", lambda: checked(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None))
    yield "another root", partial(os.chroot, "/tmp")
    address, _, port = flags.neighbour.partition(":")
    yield "a neighbour's port", partial(connect, address, int(port))


def outcome(attack: Attack) -> str:
    try:
        attack()
    except Exception as refused:  # noqa: BLE001 - whatever stops it
        return type(refused).__name__
    return "went through"


for name, attack in attacks():
    print(f"attack: {name}: {outcome(attack)}", flush=True)
model = Path(os.environ["TRAINYARD_MODEL"])
model.mkdir(parents=True, exist_ok=True)
(model / "mine.txt").write_text("mine")
for folder in ("MODEL", "CHECKPOINTS"):
    for name, target in {
        "secret": "/proc/1/environ",
        "folder": "/root",
        "inside": "/root/x",
        "none": "/none",
    }.items():
        (Path(os.environ[f"TRAINYARD_{folder}"]) / name).symlink_to(target)
Path(os.environ["TRAINYARD_TENSORBOARD"]).symlink_to("/root")
hidden = subprocess.Popen(["/bin/sh", "-c", "sleep 600"], start_new_session=True)
print(f"who: {os.getuid() != 0} {os.environ['HOME']} {os.getgroups()}", flush=True)
print("all was tried", flush=True)
