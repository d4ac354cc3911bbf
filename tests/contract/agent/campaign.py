"""Programs generated from a seed, with odd names, sizes and endings, each under its own host agent."""

import argparse
import base64
import hashlib
import json
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.contract.agent import generated
from tests.contract.agent.generated import content
from tests.contract.agent.host import Yard, packed
from tests.contract.conftest import SETTINGS, Cloud, eventually, free_port

MOST_RESIDENT_KIB = 200 * 1024
OUTPUTS_GIB = 0.25
LONGEST_KEY = 1024
PATIENCE_SECONDS = 240.0
AREAS = ("outputs", "checkpoints", "model", "tensorboard")

NAMES = (
    # names of weights, logs and settings
    *(
        b"weights.npz",
        b"0000010.pt",
        b"step=3-loss=0.5.ckpt",
        b"last.ckpt",
        b"log.txt",
        b"UPPER",
        b"upper",
        b"core",
        b"0",
    ),
    # names of our files, of TensorFlow's, and of unfinished uploads
    *(
        b"00000012",
        b"checkpoint",
        b"latest.json",
        b"facts.json",
        b"metrics.json",
        b"summary.json",
        b"outputs.json",
    ),
    *(
        b"manifest.json",
        b".trainyard-note",
        b".incoming-1",
        b"model.ckpt.data-00000-of-00001",
        b"model.ckpt.index",
    ),
    *(
        b"part_temp",
        b"x_temp_0a1b",
        b"events.out.tfevents.1.host",
        b"half.half",
        b"7.part",
        b"3.tmp",
        b"1.json",
    ),
    # difficult names for a shell, URL or XML
    *(
        b"a b  c",
        b"quote'\"`$(id)",
        b"-rf",
        b"--help",
        b"a+b%2e%2F",
        b"back\\slash",
        b"*?[x]",
        b"#&;|<>",
        b"..dots",
    ),
    *(
        b"trailing.",
        b".hidden",
        b".DS_Store",
        b"nul",
        b"~backup",
        b"a.b.c.d.e",
        b"x" * 255,
        ("é" * 127).encode(),
    ),
    *(text.encode() for text in ("ünïcode-é", "e\u0301-decomposed", "模型", "👩\u200d🔬.pt")),
    # names that no bucket stores
    *(b"r\xe9sum\xe9.txt", b"\xff\xfe", b"bell\x07", b"start\x01end", b"tab\tname", b"new\nline"),
)
"""Names of files that programs have written. Some look like files of ours."""
SIZES = (0, 1, 7, 4096, 65_537, 1_000_000, 1_000_000, 9_000_000)
ASKED = ("save and exit 0", "save and exit 1", "no handler", "interrupt")
"""Endings of programs that run until they receive a stop request."""
ENDINGS = (
    *(
        "exit 0",
        "exit 0",
        "exit 0",
        "exit 3",
        "raise",
        "raise in handler",
        "text",
        "kill",
        "segfault",
        "abort",
        "alarm",
    ),
    *("background", "handled early", "save and exit 0", "save and exit 0", *ASKED),
)


def encoded(name: bytes) -> str:
    return base64.b64encode(name).decode()


@dataclass
class Case:
    """A generated program and its expected results."""

    seed: int
    ending: str = ""
    actions: list[dict[str, Any]] = field(default_factory=list)
    churn: list[str] = field(default_factory=list)
    grow: list[str] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(seed: int) -> "Case":
        chance = random.Random(seed)
        case = Case(seed, chance.choice(ENDINGS))
        taken: set[tuple[str, bytes]] = set()
        for number in range(chance.randint(1, 9)):
            area, name = chance.choice(AREAS), _name(chance)
            top = name.split(b"/")[0]
            if any(area == other and top == theirs.split(b"/")[0] for other, theirs in taken):
                continue
            taken.add((area, name))
            case.actions.append(_action(chance, area, name, seed * 100 + number))
        case.churn = [area for area in AREAS[:2] if chance.random() < 0.2]
        case.grow = [area for area in AREAS if chance.random() < 0.15]
        case.last = {
            "kind": "file",
            "area": "checkpoints",
            "name": encoded(b"last-save"),
            "seed": seed,
            "size": 5000,
        }
        return case

    @property
    def source(self) -> dict[str, str]:
        """Return the program's files by name."""
        plan = {name: getattr(self, name) for name in ("ending", "actions", "churn", "grow", "last")}
        return {"mine.py": Path(generated.__file__).read_text(), "plan.json": json.dumps(plan)}

    @property
    def is_asked(self) -> bool:
        return self.ending in ASKED

    def files(self, area: str) -> dict[bytes, bytes]:
        """Return the regular files of the program in `area` by name."""
        done = [*self.actions, self.last] if self.ending.startswith("save") else self.actions
        found = {}
        for action in done:
            if action["area"] != area:
                continue
            name = base64.b64decode(action["name"])
            if action["kind"] in ("file", "replaced"):
                found[name] = content(action["seed"], action["size"])
            if action["kind"] == "many":
                found |= {b"%s/%d" % (name, number): b"%d" % number for number in range(action["count"])}
        return found

    def links(self, area: str) -> dict[bytes, bytes]:
        return {
            base64.b64decode(action["name"]): base64.b64decode(action["to"])
            for action in self.actions
            if action["area"] == area and action["kind"] == "link"
        }

    def empty_folders(self, area: str) -> set[bytes]:
        return {
            base64.b64decode(action["name"])
            for action in self.actions
            if action["area"] == area and action["kind"] == "folder"
        }


def _name(chance: random.Random) -> bytes:
    parts = [chance.choice(NAMES) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    return b"/".join(parts)


def _action(chance: random.Random, area: str, name: bytes, seed: int) -> dict[str, Any]:
    kinds = ["file"] * 8 + ["replaced"] * 2 + ["link"] * 2 + ["folder", "pipe", "sparse", "many", "deep"]
    kind = chance.choice(kinds)
    if kind == "sparse" and area != "outputs":
        kind = "file"
    action = {
        "kind": kind,
        "area": area,
        "name": encoded(name),
        "seed": seed,
        "pause": chance.choice((0, 0, 0.3, 1.2)),
    }
    match kind:
        case "file" | "replaced":
            action["size"] = 80_000_000 if chance.random() < 0.03 else chance.choice(SIZES)
        case "link":
            targets = (
                b"weights.npz",
                b".",
                b"..",
                b"missing",
                b"/etc/hostname",
                b"/",
                name.rpartition(b"/")[2],
            )
            action["to"] = encoded(chance.choice(targets))
        case "sparse":
            action["size"] = chance.choice((1 << 30, 1 << 36))
        case "many":
            action["count"] = chance.choice((50, 400))
        case "deep":
            action["depth"] = chance.choice((3, 8))
    return action


def is_storable(key: bytes) -> bool:
    """Return True if S3 stores the key unchanged: UTF-8, no control character, at most 1,024 bytes."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return False
    return len(key) <= LONGEST_KEY and all(ord(each) >= 0x20 and ord(each) != 0x7F for each in text)


class ViolationError(AssertionError):
    """A requirement that the case violates."""


def check(promise: bool, text: str) -> None:
    if not promise:
        raise ViolationError(text)


def run(case: Case, yard: Yard) -> float:
    """Run the case and check its requirements. Return the agent's peak memory in MB, or raise ViolationError."""
    outputs = {"keep": True, "max_gib": OUTPUTS_GIB, "restore": False}
    yard.prepare("", outputs=outputs)
    yard.put("programs/p.tar.gz", packed(case.source))
    with yard.agent_process(yard.metadata()) as agent:
        yard.hear("ready", within=PATIENCE_SECONDS)
        yard.order("start", 1)
        if case.is_asked:
            eventually(lambda: "WRITTEN" in yard.log() or _heard_ending(yard, 1), PATIENCE_SECONDS)
            time.sleep(2.5)
            yard.order("stop", 1)
        _check_ending(case, yard)
        _check_files(case, yard)
        if case.is_asked:
            _check_restart(case, yard)
        peak = _peak_kib(agent.pid)
        check(peak < MOST_RESIDENT_KIB, f"the agent's peak memory was {peak / 1024:.0f} MB")
    return peak / 1024


def _peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


EXPECTED = {
    "exit 0": ("finished", ""),
    "background": ("finished", ""),
    "exit 3": ("failed", "exit code 3"),
    "raise": ("failed", "ValueError: the planned end"),
    "raise in handler": ("failed", "OSError: the planned end"),
    "text": ("failed", "the planned end"),
    "kill": ("failed", "SIGKILL"),
    "segfault": ("failed", "SIGSEGV"),
    "abort": ("failed", "SIGABRT"),
    "alarm": ("failed", "SIGALRM"),
    "handled early": ("failed", "--split must be train or test"),
} | dict.fromkeys(ASKED, ("stopped", ""))
BLAMES = ("host agent itself", "could not be started", "upload", "Parameter validation", "UnicodeEncodeError")


def _heard_ending(yard: Yard, attempt: int) -> dict[str, Any] | None:
    """Return the host's last signal of the attempt, or None."""
    for word in ("finished", "stopped", "failed"):
        try:
            return yard.hear(word, attempt, within=0.1)
        except pytest.fail.Exception:
            continue
    return None


def _ending(yard: Yard, attempt: int) -> dict[str, Any]:
    try:
        ending: dict[str, Any] = eventually(lambda: _heard_ending(yard, attempt), PATIENCE_SECONDS)
    except pytest.fail.Exception as never:
        raise ViolationError(f"attempt {attempt} never ended; its log: {yard.log(attempt)[-800:]}") from never
    return ending


def _check_ending(case: Case, yard: Yard) -> None:
    word, text = EXPECTED[case.ending]
    heard = _ending(yard, 1)
    reason = str(heard.get("reason", ""))
    check(heard["signal"] == word, f"{case.ending}: heard {heard}, expected {word}")
    check(text in reason, f"{case.ending}: the reason is {reason!r}, expected {text!r} in it")
    check(not any(each in reason for each in BLAMES), f"{case.ending}: the reason is {reason!r}")
    if case.ending == "background":
        check(bool(heard.get("but")), f"the signal does not mention the process in the background: {heard}")


def _bucket(yard: Yard, prefix: str) -> dict[str, str]:
    """Return the ETag of every object below the prefix by key."""
    pages = yard.cloud.client("s3").get_paginator("list_objects_v2")
    return {
        item["Key"].removeprefix(prefix): item["ETag"].strip('"')
        for page in pages.paginate(Bucket=yard.bucket, Prefix=prefix)
        for item in page.get("Contents", [])
    }


def _check_files(case: Case, yard: Yard) -> None:
    ended_well = EXPECTED[case.ending][0] == "finished"
    for area in ("outputs", "model", "tensorboard"):
        if area == "model" and not ended_well:
            continue  # only a program that finished has a model
        prefix = f"runs/{yard.run}/{area}/"
        there = _bucket(yard, prefix)
        for name, expected in case.files(area).items():
            if is_storable(prefix.encode() + name):
                key = name.decode()
                check(
                    key in there, f"{area}/{key!r} is missing in the bucket; there are {sorted(there)[:20]}"
                )
                body = yard.cloud.client("s3").get_object(Bucket=yard.bucket, Key=prefix + key)["Body"].read()
                check(body == expected, f"{area}/{key!r} has other bytes in the bucket ({len(body)})")
            else:
                shown = ascii(os.fsdecode(name.rpartition(b"/")[2]))[1:-1][:40]
                check(
                    "left out" in yard.log() or "not stored" in yard.log(),
                    f"no log line names {shown!r} of {area}",
                )


def _check_restart(case: Case, yard: Yard) -> None:
    latest = f"runs/{yard.run}/checkpoints/latest.json"
    storable = {name: data for name, data in case.files("checkpoints").items() if is_storable(name)}
    if latest not in yard.keys(latest):
        check(not any(storable.values()), f"the bucket has no checkpoint, expected {sorted(storable)[:10]}")
        return
    named = {name: yard.latest[name] for name in ("step", "key")}
    yard.order("start", 2, checkpoint=named)
    ending = _ending(yard, 2)
    check(ending["signal"] == "finished", f"the restart: {ending}")
    log = "".join(line.partition(" | ")[2] for line in yard.log(2).splitlines(keepends=True))
    text = "".join(line.removeprefix("LISTING ") for line in log.splitlines() if line.startswith("LISTING "))
    found = {base64.b64decode(name): rest for name, *rest in json.loads(text)}
    for name, expected in storable.items():
        check(name in found, f"the checkpoint lacks {name!r} after the restart; it has {sorted(found)[:20]}")
        same = found[name][:2] == ["file", hashlib.sha256(expected).hexdigest()]
        check(same, f"the checkpoint's {name!r} is different after the restart: {found[name]}")
    for name, to in case.links("checkpoints").items():
        if is_storable(name):
            check(
                found.get(name) == ["link", encoded(to)],
                f"the link {name!r} is {found.get(name)} after the restart",
            )
    for name in case.empty_folders("checkpoints"):
        if is_storable(name):
            check(
                found.get(name) == ["folder", ""],
                f"the empty folder {name!r} is {found.get(name)} after the restart",
            )
    names = [base64.b64decode(action["name"]) for action in case.actions if action["area"] == "checkpoints"]
    times = [found[name][2] for name in names if name in found and found[name][0] == "file"]
    check(times == sorted(times), f"the order of modification times changed: {times}")


def results(
    seeds: Sequence[int], cloud: Cloud, folder: Path, *, jobs: int
) -> Iterator[tuple[Case, float, str]]:
    """Yield each case with the agent's peak memory in MB and the violated requirement (or an empty string)."""

    def one(seed: int) -> tuple[Case, float, str]:
        case, root = Case.of(seed), folder / str(seed)
        root.mkdir()
        try:
            return case, run(case, Yard(cloud, root)), ""
        except ViolationError as broken:
            return case, 0.0, str(broken)
        except Exception:  # noqa: BLE001 - the campaign reports it and runs the next case
            return case, 0.0, traceback.format_exc()[-1500:]

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, seeds)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=46)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--skip", type=int, default=0, help="cases of the seed to pass over")
    parser.add_argument("--jobs", type=int, default=3)
    options = parser.parse_args()
    broken, peaks = 0, []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        cloud = Cloud(Path(name, "cloud"), free_port(), SETTINGS)
        cloud.up()
        os.environ |= {
            "AWS_ENDPOINT_URL": cloud.endpoint, "AWS_ACCESS_KEY_ID": cloud.root.key,
            "AWS_SECRET_ACCESS_KEY": cloud.root.secret, "AWS_DEFAULT_REGION": "us-east-1",
        }  # fmt: skip
        first = options.seed * 1000 + options.skip
        seeds = range(first, first + options.cases)
        try:
            for case, peak, what in results(seeds, cloud, Path(name), jobs=options.jobs):
                broken += bool(what)
                peaks.append(peak)
                print(f"{case.seed} {case.ending:17} {peak:4.0f} MB  {what or 'ok'}", flush=True)
        finally:
            cloud.down()
    print(f"{options.cases} cases, {broken} broken; the agent's peak memory was {max(peaks):.0f} MB at most")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
