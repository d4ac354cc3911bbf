"""The check of a host's GPUs before its program starts, with a stand-in of NVIDIA's all_reduce_perf."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.agent.host import INSTANCE, Yard
from tests.contract.conftest import eventually
from training.host.agent import collectives
from training.host.program.packages import site_packages

TABLE = """\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
           8             2     float     sum      -1    22.31    0.00    0.00      0    21.80    0.00    0.00      0
    67108864      16777216     float     sum      -1    580.1  115.69  202.45  {wrong}    575.5  116.61  204.07      0
"""
ERROR = (
    "ip-10-0-1-5:41:52 [3] include/socket.h:423 NCCL WARN Net : Connect to 10.0.1.5<40011> failed : timed out"
)
PROGRAM = """
print("the program has started", flush=True)
"""


@pytest.fixture
def check(yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that starts a run on a host with four GPUs. `perf` are the lines of all_reduce_perf."""

    def start(perf: str | None, seconds: int | None, **gang: Any) -> None:
        folder = tmp_path / "commands"
        folder.mkdir()
        for name, lines in {"nvidia-smi": "exit 9", "all_reduce_perf": perf}.items():
            if lines is not None:
                (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
                (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        yard.tags = {"trainyard:gpus": "4"}
        limit: dict[str, Any] = {"nccl_check_seconds": seconds} if seconds else {}
        yard.prepare(PROGRAM, **limit)
        yard.start_agent()
        yard.hear("ready")
        yard.order("start", 1, **({"strategy": "mirrored"} | gang))

    return start


def printing(text: str) -> str:
    return f"cat <<'END'\n{text}\nEND"


def failed(yard: Yard) -> dict[str, Any]:
    signal = yard.hear("failed")
    assert signal["kind"] == "host"
    assert not signal.get("final")
    assert "the program has started" not in yard.log()
    return signal


def test_a_sound_host_notes_the_bandwidth_and_starts_the_program(
    yard: Yard, check: Callable[..., None], tmp_path: Path
) -> None:
    check(f'echo "$@" > {tmp_path}/words\n{printing(TABLE.format(wrong=0))}', 600)
    assert "an all-reduce over 4 GPUs reached 202.4 GB/s (NCCL, " in yard.hear("started")["checked"]
    yard.hear("finished")
    log = yard.log()
    assert log.index("an all-reduce over 4 GPUs reached") < log.index("the program has started")
    assert (tmp_path / "words").read_text() == "-b 8 -e 64M -f 8 -g 4\n"


def test_an_error_of_nccl_is_the_hosts_and_its_lines_are_the_reason(
    yard: Yard, check: Callable[..., None]
) -> None:
    check(f"{printing(ERROR)}\necho 'unhandled system error'\nexit 3", 600)
    reason = failed(yard)["reason"]
    assert "ended with exit code 3 on chief-0 (i-0123456789abcdef0, 4 GPUs): " in reason
    assert "NCCL WARN Net : Connect to 10.0.1.5<40011> failed : timed out" in reason
    assert "unhandled system error" in reason


def test_wrong_sums_are_a_failure_even_with_exit_code_0(yard: Yard, check: Callable[..., None]) -> None:
    check(printing(TABLE.format(wrong=5)), 600)
    assert "found 5 wrong results on chief-0" in failed(yard)["reason"]


def test_an_all_reduce_that_hangs_ends_at_the_time_limit(
    yard: Yard, check: Callable[..., None], tmp_path: Path
) -> None:
    check(f"sleep 1000 &\necho $! > {tmp_path}/pid\necho 'NCCL version 2.21.5'\nwait", 3)
    reason = failed(yard)["reason"]
    assert "did not end within 3 s (nccl_check_seconds) on chief-0" in reason
    pid = (tmp_path / "pid").read_text().strip()
    eventually(
        lambda: not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_text()
    )


def test_a_host_without_nvidias_test_and_without_tensorflow_starts_the_program(
    yard: Yard, check: Callable[..., None]
) -> None:
    check(None, 600)
    assert "checked" not in yard.hear("started")
    yard.hear("finished")
    assert "are not checked: No module named 'tensorflow'" in yard.log()


def test_a_host_that_may_have_failed_because_of_another_one_leaves_if_it_is_ordered_to(
    yard: Yard, check: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collectives, "WAIT_FOR_OTHERS_SECONDS", 600.0)
    lines = (
        "import os, sys",
        f"open({str(tmp_path / 'config')!r}, 'w').write(os.environ['TF_CONFIG'])",
        "sys.exit('NCCL WARN socketProgress: Connection closed by remote peer 10.0.1.6')",
    )
    (site_packages(yard.paths.python.parent.parent) / "tensorflow.py").write_text("\n".join(lines))
    roles = {"chief": (INSTANCE, "10.0.1.5", 0), "worker": ("i-0000000000000000b", "10.0.1.6", 1)}
    hosts = [
        {"instance": instance, "role": role, "index": index, "address": address}
        for role, (instance, address, index) in roles.items()
    ]
    check("exit 3", 600, strategy="multi_worker", hosts=hosts)
    log = yard.paths.program_log(1, "chief", 0)
    eventually(lambda: log.exists() and "10.0.1.6" in log.read_text())
    yard.order("stop", 1)
    assert yard.hear("stopped")["why"] == "asked"
    assert "failed" not in {event["detail-type"] for event in yard.heard}
    workers = json.loads((tmp_path / "config").read_text())["cluster"]["worker"]
    assert workers == ["10.0.1.5:2223", "10.0.1.6:2223"], "not the program's port"


def test_without_the_setting_nothing_is_checked(yard: Yard, check: Callable[..., None]) -> None:
    check("exit 3", None)
    assert "checked" not in yard.hear("started")
    yard.hear("finished")
