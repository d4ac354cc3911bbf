"""The output of an all-reduce, and the hosts that take part in it."""

from datetime import UTC, datetime

import pytest

from training.host.agent.collectives import OF_OTHERS, Result, count_ranks, read_result, reason_in
from trainyard.protocol.cluster import Assignment, Cluster, Role, Strategy

NVIDIAS = """\
# nThread 1 nGpus 8 minBytes 8 maxBytes 67108864 step: 8(factor) warmup iters: 5 iters: 20
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    22.31    0.00    0.00      0    21.80    0.00    0.00      0
    67108864      16777216     float     sum      -1    580.1  115.69  202.45      0    575.5  116.61  204.07    N/A
# Out of bounds values : 0 OK
"""
OURS = """\
all hosts of the gang have found each other
8 2 float sum -1 2770.02 0.00 0.00 0
67108864 16777216 float sum -1 545187.29 0.12 0.12 3
"""
REMOTE = (
    "worker:41:52 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer 10.0.1.6"
)
OWN = "worker:41:52 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'"


def cluster(strategy: Strategy) -> Cluster:
    roles = ((Role.CHIEF, 0), (Role.WORKER, 1), (Role.EVALUATOR, 0))
    hosts = (Assignment(f"i-{role}", role, index, "10.0.1.5") for role, index in roles)
    return Cluster(
        run="r", attempt=1, strategy=strategy, assignments=tuple(hosts), deadline=datetime.now(UTC)
    )


@pytest.mark.parametrize(
    ("output", "result"),
    [(NVIDIAS, Result(202.45, 0)), (OURS, Result(0.12, 3)), ("", None), ("NCCL version 2.21.5", None)],
)
def test_the_result_is_the_highest_rate_of_the_bus_and_all_wrong_sums(
    output: str, result: Result | None
) -> None:
    assert read_result(output) == result


def test_the_reason_has_the_errors_of_nccl_and_the_last_lines() -> None:
    output = "\n".join(["first", OWN, *(f"line {number}" for number in range(20)), "unhandled cuda error"])
    reason = reason_in(NVIDIAS + output)
    assert reason.startswith(f"{OWN} / unhandled cuda error / line 16 / ")
    assert "first" not in reason
    assert len(reason_in(OWN * 100)) <= 600


@pytest.mark.parametrize(("line", "is_of_others"), [(REMOTE, True), (OWN, False)])
def test_an_error_of_a_lost_peer_is_told_from_one_of_the_host(line: str, is_of_others: bool) -> None:
    assert bool(OF_OTHERS.search(line)) is is_of_others


@pytest.mark.parametrize(
    ("strategy", "ranks"),
    [
        (Strategy.SINGLE, (4, 4, 4)),
        (Strategy.MIRRORED, (4, 4, 4)),
        (Strategy.MULTI_WORKER, (8, 8, 0)),
        (Strategy.PARAMETER_SERVER, (0, 0, 0)),
    ],
)
def test_only_hosts_that_train_in_step_reduce_together(strategy: Strategy, ranks: tuple[int, ...]) -> None:
    gang = cluster(strategy)
    assert tuple(count_ranks(gang, each, 4) for each in gang.assignments) == ranks
