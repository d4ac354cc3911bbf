"""The program of a campaign's case: perform the actions in plan.json, then end. Standard library only."""

import base64
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

LINE_CHARACTERS = 8000


def content(seed: int, size: int) -> bytes:
    """Return the content of the file with that seed and size."""
    block = hashlib.sha256(str(seed).encode()).digest() * 2048
    return (block * (size // len(block) + 1))[:size]


def folder_of(area: str) -> Path:
    return Path.cwd() if area == "outputs" else Path(os.environ[f"TRAINYARD_{area.upper()}"])


def decoded(name: str) -> str:
    """Decode a base 64 name, which may contain any bytes, as Python represents file names."""
    return os.fsdecode(base64.b64decode(name))


def encoded(name: str | Path) -> str:
    return base64.b64encode(os.fsencode(name)).decode()


def do(action: dict[str, Any]) -> None:
    """Create the file, link, folder, pipe or tree that the action describes."""
    path = folder_of(action["area"]) / decoded(action["name"])
    path.parent.mkdir(parents=True, exist_ok=True)
    match action["kind"]:
        case "file":
            path.write_bytes(content(action["seed"], action["size"]))
        case "replaced":
            for seed in (action["seed"] + 1, action["seed"]):
                half = path.with_name("on-its-way")
                half.write_bytes(content(seed, action["size"]))
                half.replace(path)
        case "link":
            path.symlink_to(decoded(action["to"]))
        case "folder":
            path.mkdir(parents=True, exist_ok=True)
        case "pipe":
            os.mkfifo(path)
        case "sparse":
            path.touch()
            os.truncate(path, action["size"])
        case "many":
            path.mkdir(parents=True, exist_ok=True)
            for number in range(action["count"]):
                (path / str(number)).write_text(str(number))
        case "deep":
            dig(path.parent, action["depth"])


def dig(parent: Path, depth: int) -> None:
    """Create nested folders until no path from the root can name the file at the bottom."""
    here = os.open(parent, os.O_RDONLY)
    for _ in range(depth):
        with suppress(FileExistsError):
            os.mkdir(b"d" * 200, dir_fd=here)
        below = os.open(b"d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open(b"bottom", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


def churn(folder: Path) -> None:
    """Create and remove files while the program runs."""
    for number in itertools.count():
        path = folder / f"vanishing-{number % 20}"
        path.write_bytes(b"x" * 50_000)
        path.unlink()
        time.sleep(0.002)


def grow(folder: Path) -> None:
    """Append a line to a log 20 times a second while the program runs."""
    with (folder / "growing.log").open("ab", buffering=0) as file:
        while True:
            file.write(b"a line of the log\n")
            time.sleep(0.05)


def listing(folder: Path) -> list[list[Any]]:
    """Return [name, kind, properties ...] of each file, link and empty folder below."""
    found: list[list[Any]] = []
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in (*folders, *files)):
            shown = encoded(path.relative_to(folder))
            if path.is_symlink():
                found.append([shown, "link", encoded(path.readlink())])
            elif path.is_dir():
                found += [] if any(path.iterdir()) else [[shown, "folder", ""]]
            else:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                found.append([shown, "file", digest, path.stat().st_mtime_ns])
    return found


def end(ending: str, last: dict[str, Any], left: threading.Event) -> None:
    """End as the case specifies. A waiting program returns after a stop request."""
    match ending:
        case "handled early":
            try:
                __import__("a_module_that_is_missing")
            except ImportError:
                traceback.print_exc()
            for number in range(30):
                print("step", number, "loss", 1 / (number + 1))
            sys.exit("--split must be train or test")
        case "save and exit 0" | "save and exit 1":
            while not left.wait(0.1):
                pass
            do(last)
            print("SAVED", flush=True)
            sys.exit(int(ending[-1]))
        case "no handler" | "interrupt":
            while True:
                time.sleep(0.1)
        case "raise":
            raise ValueError("the planned end")
        case "raise in handler":
            try:
                _ = dict[str, str]()["missing"]
            except KeyError:
                raise OSError("the planned end")  # noqa: B904 - as people write it
        case "text":
            sys.exit("the planned end")
        case "kill" | "segfault":
            os.kill(os.getpid(), signal.SIGKILL if ending == "kill" else signal.SIGSEGV)
        case "abort":
            os.abort()
        case "alarm":
            signal.alarm(1)
            time.sleep(60)
        case "background":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    sys.exit(3 if ending == "exit 3" else 0)


def interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    if os.environ["TRAINYARD_ATTEMPT"] != "1":
        text = json.dumps(listing(folder_of("checkpoints")))
        for start in range(0, len(text), LINE_CHARACTERS):
            print("LISTING", text[start : start + LINE_CHARACTERS], flush=True)
        return
    plan = json.loads(Path(__file__).with_name("plan.json").read_text())
    left = threading.Event()
    if plan["ending"].startswith("save and exit"):
        signal.signal(signal.SIGTERM, lambda *_: left.set())
    if plan["ending"] == "interrupt":
        signal.signal(signal.SIGTERM, interrupt)
    for act, areas in ((churn, plan["churn"]), (grow, plan["grow"])):
        for area in areas:
            folder_of(area).mkdir(parents=True, exist_ok=True)
            threading.Thread(target=act, args=(folder_of(area),), daemon=True).start()
    for action in plan["actions"]:
        do(action)
        time.sleep(action["pause"])
    print("WRITTEN", flush=True)
    end(plan["ending"], plan["last"], left)


if __name__ == "__main__":
    main()
