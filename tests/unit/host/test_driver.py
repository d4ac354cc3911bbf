"""The state of GPUs in texts of nvidia-smi."""

from pathlib import Path

import pytest

from training.host.health import BrokenHardware, Health
from training.host.use import driver
from training.host.use.driver import QUERIES, Driver, faults_of, measures_of, parse
from trainyard.core.model import host_use

BUSY = "97, 20480, 61, 70.12, 2040, 0x0000000000000000, 2040, 4, 4, 16, 16, 0"
HOT = "99, 20480, 92, 71.90, 918, 0x0000000000000048, 2040, 4, 4, 4, 16, 2"
IDLE = "0, 4, 31, 12.00, 210, 0x0000000000000001, 2040, 1, 4, 16, 16, 0"
NO_ECC = "50, 4, [N/A], [Not Supported], 300, [N/A], [N/A], [N/A], 4, 16, 16, [N/A]"
INVALID = 'Field "{}" is not a valid field to query.'


def script(folder: Path, monkeypatch: pytest.MonkeyPatch, *answers: tuple[str, str, int]) -> Path:
    """Put an nvidia-smi on the path that answers options by a text that they contain. Return the file of its calls."""
    cases = "".join(
        f"  *{asked}*) printf '%s\\n' '{prints}'; exit {code};;\n" for asked, prints, code in answers
    )
    path = folder / "nvidia-smi"
    path.write_text(f'#!/bin/sh\necho "$1" >> {folder}/asked\ncase "$1" in\n{cases}  *) exit 9;;\nesac\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder / "asked"


def test_each_gpu_has_its_use_its_share_of_the_clock_and_of_the_link() -> None:
    found = measures_of(parse(QUERIES[0], f"{BUSY}\n{HOT}\n{IDLE}\n"))
    assert (found["gpu.0"], found["gpu_watts.0"], found["gpu_clock.0"], found["gpu_link.0"]) == (
        97.0,
        70.12,
        100.0,
        100.0,
    )
    assert (found["gpu_slowed.0"], found["gpu_slowed.2"]) == (0.0, 0.0), "an idle GPU has a low clock, too"
    assert (found["gpu_clock.1"], found["gpu_link.1"], int(found["gpu_slowed.1"])) == (45.0, 25.0, 0x48)
    assert "gpu_link.2" not in found, "the link of an idle GPU rests"


def test_values_that_a_gpu_does_not_report_are_left_out() -> None:
    found = measures_of(parse(QUERIES[0], NO_ECC))
    assert found == {"gpu.0": 50.0, "gpu_memory.0": 4.0, "gpu_mhz.0": 300.0}
    assert [*faults_of(parse(QUERIES[0], NO_ECC))] == []


def test_uncorrectable_errors_and_rows_without_a_spare_are_fatal_and_a_pending_row_is_not() -> None:
    faults = [*faults_of(parse(QUERIES[0], f"{BUSY}\n{HOT}\n"))]
    assert [(each.reason, each.is_fatal) for each in faults] == [
        ("GPU 1 of this host reports 2 uncorrectable memory errors (ECC)", True)
    ]
    rows = parse((driver.PENDING, driver.FAILED), "No, No\nYes, No\nYes, Yes\n0, 1\n[N/A], [N/A]\n")
    assert [(each.reason, each.is_fatal) for each in faults_of(rows)] == [
        ("GPU 1 of this host will remap a damaged row of its memory at its next reset", False),
        ("GPU 2 of this host has no spare row for a damaged row of its memory", True),
        ("GPU 3 of this host has no spare row for a damaged row of its memory", True),
    ]


def test_a_driver_with_the_older_names_is_asked_with_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = INVALID.format("clocks_event_reasons.active")
    asked = script(
        tmp_path,
        monkeypatch,
        ("event_reasons", event, 2),
        ("throttle_reasons", HOT, 0),
        ("remapped", "No, No", 0),
    )
    reader = Driver()
    for _ in range(4):
        found = reader.read()
    assert (found["gpu_clock.0"], int(found["gpu_slowed.0"])) == (45.0, 0x48)
    calls = asked.read_text().splitlines()
    assert sum("event_reasons" in call for call in calls) == 1
    assert sum("remapped" in call for call in calls) == 2, "remapped rows are read at every third time"


def test_a_driver_without_these_fields_still_reports_its_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacks = INVALID.format("pcie.link.gen.max")
    script(tmp_path, monkeypatch, ("pcie", lacks, 2), ("utilization", "61, 4, 31, 12.5, 210", 0))
    reader = Driver()
    found = reader.read()
    assert found == {
        "gpu.0": 61.0,
        "gpu_memory.0": 4.0,
        "gpu_celsius.0": 31.0,
        "gpu_watts.0": 12.5,
        "gpu_mhz.0": 210.0,
    }
    assert reader.faults == ()


def test_a_driver_that_fails_is_asked_once_and_its_state_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = script(tmp_path, monkeypatch, ("gpu", "Unable to determine the device handle: GPU is lost.", 15))
    reader = Driver()
    assert (reader.read(), reader.read(), reader.faults) == ({}, {}, ())
    assert sum("--query-gpu" in call for call in asked.read_text().splitlines()) == 1


def test_a_fault_that_a_sample_reports_gives_the_host_up_and_is_noted_once(tmp_path: Path) -> None:
    health = Health(tmp_path / "none")
    for count in (1, 2):
        for fault in faults_of([{driver.UNCORRECTED: str(count)}]):
            health.report(fault)
    assert health.look() == ("GPU 0 of this host reports 1 uncorrectable memory error (ECC)",)
    with pytest.raises(BrokenHardware, match="GPU 0 of this host reports 1 uncorrectable"):
        health.check()


def test_only_faults_count_as_reasons_for_a_lower_clock() -> None:
    power_cap, idle = 0x4, 0x1
    assert host_use.SLOWDOWNS & (power_cap | idle) == 0
