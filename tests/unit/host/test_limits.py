"""One sentence about what limits a program, and the rank that the others wait for."""

import pytest

from training.host.use.limits import LEAST_SAMPLES, SLOW_SAMPLES, find_limit, find_slow
from trainyard.core.model.host_use import HostUse


def host(name: str = "a", *, samples: int = SLOW_SAMPLES, gpus: int = 0, **values: float) -> HostUse:
    made = HostUse(
        instance=f"i-{name}", role=f"worker {name}", processors=4, memory=16_000, gpus=gpus, at=[], columns={}
    )
    for number in range(samples):
        made.add(number, {key.replace("__", "."): value for key, value in values.items()})
    return made


LIMITS = [
    # name, use of the host, the sentence begins with, and contains
    (
        "GPUs that wait for decoded examples",
        {"gpus": 1, "gpu__0": 39.0, "input": 61.2, "processors": 3.2},
        "the GPUs waited for input 61 % of the time: 3 of 4 processors were busy; ",
        "a type with more processors for each GPU",
    ),
    (
        "GPUs that wait, without a measured input",
        {"gpus": 1, "gpu__0": 30.0, "processors": 1.1},
        "the GPUs waited 70 % of the time: 1 of 4 processors was busy; ",
        "num_workers",
    ),
    (
        "a program that waits for slow storage",
        {"input": 80.0, "processors": 0.1, "disk_read": 2.5},
        "the program waited for input 80 % of the time: hardly any of 4 processors was busy, and 2.5 MB/s came from",
        "mode: copy",
    ),
    (
        "busy GPUs",
        {"gpus": 1, "gpu__0": 93.0, "input": 4.0},
        "the GPUs were busy 93 % of the time: ",
        "mixed precision",
    ),
    (
        "busy processors",
        {"processors": 3.9, "input": 2.0},
        "4 of 4 processors were busy: they are the limit",
        "GPU",
    ),
    (
        "a program that sleeps",
        {"processors": 0.0},
        "nothing of the host was busy: hardly any of 4 processors",
        "",
    ),
]


@pytest.mark.parametrize(
    ("values", "begins", "has"), [row[1:] for row in LIMITS], ids=[row[0] for row in LIMITS]
)
def test_one_sentence_names_what_limits_a_program(values: dict[str, float], begins: str, has: str) -> None:
    said = find_limit([host(**values)])  # type: ignore[arg-type]
    assert said is not None
    assert said.startswith(begins)
    assert has in said
    assert not said.endswith(".")


def test_a_limit_of_a_gang_names_the_host_that_waits_most() -> None:
    said = find_limit([host("a", input=3.0, processors=1.0), host("b", input=50.0, processors=1.0)])
    assert said is not None
    assert said.startswith("the program waited for input 50 % of the time on worker b (i-b): ")


def test_nothing_is_said_before_there_are_enough_samples() -> None:
    assert find_limit([host(samples=LEAST_SAMPLES - 1, input=90.0)]) is None
    assert find_slow([host("a", own=1.0), host("b", own=9.0, samples=SLOW_SAMPLES - 1)]) is None


SLOW = [
    # name, a, b, c, begin of the reason of b
    (
        "its input",
        {"input": 2.0},
        {"input": 70.0},
        {"input": 4.0},
        "it waited for its input 70 % of the time, the others 3 %",
    ),
    (
        "its own work",
        {"own": 1.0},
        {"own": 2.0},
        {"own": 1.2},
        "its program kept 2.0 processors busy or waiting for one",
    ),
    (
        "a hot GPU",
        {"gpus": 1, "gpu_mhz__0": 1700.0, "gpu_celsius__0": 60.0},
        {"gpus": 1, "gpu_mhz__0": 1100.0, "gpu_celsius__0": 92.0},
        {"gpus": 1, "gpu_mhz__0": 1710.0, "gpu_celsius__0": 61.0},
        "its GPUs run at 1100 MHz at 92 °C, the others' GPUs at 1705 MHz",
    ),
]


@pytest.mark.parametrize(("a", "b", "c", "why"), [row[1:] for row in SLOW], ids=[row[0] for row in SLOW])
def test_the_rank_that_the_others_wait_for_is_named_with_its_host(
    a: dict[str, float], b: dict[str, float], c: dict[str, float], why: str
) -> None:
    slow = find_slow([host("a", **a), host("b", **b), host("c", **c)])  # type: ignore[arg-type]
    assert slow is not None
    assert slow.instance == "i-b"
    assert slow.reason.startswith(f"worker b (i-b) is slower than the others, which wait for it: {why}")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"input": 40.0}, {"input": 60.0}),
        ({"own": 1.0}, {"own": 1.2}),
        ({"own": 0.1}, {"own": 0.2}),
        ({"input": 5.0}, {}),
        ({}, {}),
    ],
)
def test_ranks_that_are_alike_or_unknown_are_not_named(a: dict[str, float], b: dict[str, float]) -> None:
    assert find_slow([host("a", **a), host("b", **b)]) is None  # type: ignore[arg-type]


def test_a_rank_that_is_slow_only_now_and_then_is_not_named() -> None:
    turns = host("b", samples=SLOW_SAMPLES - 1, own=4.0)
    turns.add(99, {"own": 0.5})
    assert find_slow([host("a", own=1.0), turns]) is None


def test_one_host_is_no_rank_among_others() -> None:
    assert find_slow([host("a", input=99.0)]) is None
