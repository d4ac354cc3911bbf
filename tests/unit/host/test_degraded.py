"""One sentence about GPUs that the driver slows down, and about slow links."""

import pytest

from training.host.use.degraded import LEAST_SAMPLES, find_degraded
from trainyard.core.model.host_use import HostUse


def host(*, samples: int, gpus: int = 1, **values: float) -> HostUse:
    made = HostUse(instance="i-b", role="worker 1", processors=4, memory=16_000, gpus=gpus, at=[], columns={})
    for number in range(samples):
        made.add(20 * number, {key.replace("__", "."): value for key, value in values.items()})
    return made


FOUND = [
    # name, samples, values, the sentence
    (
        "a hot GPU",
        37,
        {"gpu_slowed__0": 0x48, "gpu_clock__0": 45.0},
        "GPU 0 of worker 1 (i-b) ran at 45 % of its clock for at least 12 minutes: thermal slowdown",
    ),
    (
        "a GPU that the driver's software slows down",
        LEAST_SAMPLES,
        {"gpu_slowed__0": 0x20, "gpu_clock__0": 80.0},
        "GPU 0 of worker 1 (i-b) ran at 80 % of its clock for at least 3 minutes: thermal slowdown",
    ),
    (
        "a power brake, without a known clock",
        LEAST_SAMPLES,
        {"gpu_slowed__0": 0x88},
        "GPU 0 of worker 1 (i-b) was slowed down for at least 3 minutes: its power supply brakes it",
    ),
    (
        "the hardware, for another reason, on two GPUs",
        LEAST_SAMPLES,
        {"gpus": 2, "gpu_slowed__0": 0x08, "gpu_slowed__1": 0x08, "gpu_clock__0": 50.0},
        "each of the GPUs 0, 1 of worker 1 (i-b) ran at 50 % of its clock for at least 3 minutes: hardware slowdown",
    ),
    (
        "a narrow link",
        20,
        {"gpu_slowed__0": 0.0, "gpu_link__0": 25.0},
        "GPU 0 of worker 1 (i-b) had 25 % of the bandwidth of its PCIe link for at least 6 minutes",
    ),
]


@pytest.mark.parametrize(
    ("samples", "values", "said"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND]
)
def test_a_gpu_that_is_slow_for_minutes_is_named(samples: int, values: dict[str, float], said: str) -> None:
    assert find_degraded([host(samples=samples, **values)]) == {"i-b": said}  # type: ignore[arg-type]


def test_sound_unknown_and_short_are_not_named() -> None:
    sound = host(samples=40, gpu_slowed__0=0.0, gpu_link__0=100.0)
    short = host(samples=LEAST_SAMPLES - 1, gpu_slowed__0=0x40)
    assert find_degraded([sound, short, host(samples=40)]) == {}


def test_a_gpu_that_has_recovered_is_not_named_and_unknown_samples_are_skipped() -> None:
    known = host(samples=LEAST_SAMPLES, gpu_slowed__0=0x40)
    known.add(1_000, {})
    assert find_degraded([known])["i-b"].endswith("for at least 12 minutes: thermal slowdown")
    known.add(1_020, {"gpu_slowed.0": 0.0})
    assert find_degraded([known]) == {}
