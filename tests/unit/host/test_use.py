"""The use of a host: samples from /proc, and the file with its columns."""

import json
from pathlib import Path

import pytest

from training.host.use.sampling import Counters, rates, read_waits
from trainyard.core.model import host_use
from trainyard.core.model.host_use import MOST_SAMPLES, HostUse


def use(**more: object) -> HostUse:
    known = {"gpus": 0, "at": [], "columns": {}}
    return HostUse(instance="i-a", role="chief 0", processors=4, memory=16_000, **(known | more))  # type: ignore[arg-type]


def counters(at: float, **more: object) -> Counters:
    known = {"program": 0.0, "waited": 0.0, "others": 0.0, "disk": (0.0, 0.0), "network": (0.0, 0.0)}
    return Counters(at=at, **(known | more))  # type: ignore[arg-type]


def test_rates_are_differences_by_time() -> None:
    before = counters(10.0, program=1.0, waited=2.0, others=4.0, disk=(0.0, 1e6), network=(5e6, 0.0))
    after = counters(
        20.0,
        program=11.0,
        waited=7.0,
        others=34.0,
        disk=(2e7, 1e6),
        network=(1e7, 1e6),
        inputs={7: (19.0, 6.0), 8: (19.0, 1.0)},
    )
    measured = rates(before, after)
    assert measured[host_use.PROCESSORS] == 3.0
    assert measured[host_use.OWN] == 1.5
    assert (measured[host_use.DISK_READ], measured[host_use.RECEIVED]) == (2.0, 0.5)
    assert host_use.INPUT not in measured, "one note shows no rate"


def test_the_wait_for_input_is_the_share_of_the_process_that_waits_most() -> None:
    before = counters(0.0, inputs={7: (0.0, 0.0), 8: (0.0, 0.0)})
    after = counters(20.0, inputs={7: (10.0, 6.1), 8: (20.0, 2.0), 9: (20.0, 20.0)})
    assert rates(before, after)[host_use.INPUT] == pytest.approx(61.0)


def test_a_counter_that_falls_counts_as_nothing() -> None:
    assert rates(counters(0.0, program=9.0), counters(10.0, program=1.0))[host_use.OWN] == 0.0


def test_notes_of_waits_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "waits.jsonl"
    assert read_waits(path) == {}
    lines = [
        "nonsense",
        "[]",
        '{"pid": 7}',
        '{"pid": 7, "at": 1, "waited": 0.5}',
        '{"pid": 7, "at": 6, "waited": 3}',
    ]
    path.write_text("\n".join(lines))
    assert read_waits(path) == {7: (6.0, 3.0)}


def test_a_file_has_at_most_this_many_samples_and_reads_as_written() -> None:
    kept = use(gpus=1)
    for second in range(3 * MOST_SAMPLES):
        kept.add(second, {"processors": 1.0, **({"gpu.0": 50.0} if second > MOST_SAMPLES else {})})
    assert len(kept.at) <= MOST_SAMPLES
    assert kept.at == sorted(kept.at)
    assert kept.at[-1] == 3 * MOST_SAMPLES - 1
    assert host_use.read(kept.to_text()) == kept
    assert (kept.gpu_mean(), kept.mean("input")) == (50.0, None)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff",
        json.dumps({"instance": "i-a"}),
        use(at=[1, 2], columns={"input": [1.0]}).to_text(),
        '{"at": 1}',
    ],
)
def test_a_file_of_another_form_is_no_record(text: str | bytes) -> None:
    assert host_use.read(text) is None
