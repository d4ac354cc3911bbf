"""A run's rows in the ledger: remaining hosts, missing hosts, and the end of a gang."""

from typing import Any

import pytest

from lambdas.core.run import deadlines, draining, records
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble, trouble_of
from lambdas.core.run.release import Act, Disposal, dispose
from tests.support.records import AT, JOB, host, ledger
from tests.unit.core.builders import NOON, after, candidate, served_job
from trainyard.core.model.job import Hosts
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.plan import Market, Plan, RefusalKind
from trainyard.values import serialization


def test_a_run_that_nobody_wrote_down_is_unknown() -> None:
    assert records.from_rows("digits-1", []) is None


def test_a_run_of_which_only_a_late_word_is_left_is_unknown_too() -> None:
    assert records.from_rows("digits-1", [{"sk": "run", "progress": {"step": 5}}]) is None


TORN = [
    # name, rows beside the run's own, lost hosts
    ("nothing is launched yet", [], None),
    (
        "a pool has refused",
        [{"sk": "launch-request#0001#000#000", "token": "t", "at": AT, "answer": "refused"}],
        None,
    ),
    (
        "its gang was launched",
        [{"sk": "launch-request#0001#000#000", "token": "t", "at": AT, "answer": "launched"}],
        "attempt 1",
    ),
    ("its gang was waited for", [{"sk": "token#0001#train", "token": "t", "stored": AT}], "attempt 1"),
    (
        "a late word is all that is left of the attempt",
        [{"sk": "token#0001#train", "token": "t", "stored": AT}, {"sk": "attempt#0001", "started": AT}],
        "attempt 1",
    ),
    (
        "a host of the gang is gone",
        [
            {"sk": "attempt#0001", "candidate": {}, "hosts": ["i-a", "i-b"], "launched": AT},
            {"sk": "host#i-a", **host()},
        ],
        "i-b",
    ),
    (
        "all are there",
        [
            {"sk": "attempt#0001", "candidate": {}, "hosts": ["i-a"], "launched": AT},
            {"sk": "host#i-a", **host()},
            {"sk": "token#0001#train", "token": "t", "stored": AT},
        ],
        None,
    ),
    ("another attempt is", [{"sk": "token#0002#train", "token": "t", "stored": AT}], None),
]


@pytest.mark.parametrize(("rows", "gone"), [row[1:] for row in TORN], ids=[row[0] for row in TORN])
def test_what_is_gone_of_the_rows_of_an_attempt(rows: list[dict[str, Any]], gone: str | None) -> None:
    run = {"sk": "run", "kind": "train", "state": "Train", "attempt": 1, "created": AT, "execution_arn": "a"}
    found = records.from_rows("digits-1", [run, *rows])
    assert found is not None
    assert found.torn == gone


def test_the_host_of_a_snapshot_is_in_the_rows_of_another_run() -> None:
    run = {
        "sk": "run",
        "kind": "snapshot",
        "state": "Capture",
        "attempt": 1,
        "created": AT,
        "execution_arn": "a",
    }
    row = {"sk": "attempt#0001", "candidate": {}, "hosts": ["i-a"], "launched": AT}
    found = records.from_rows("by-hand", [run, row])
    assert found is not None
    assert found.torn is None


STOPPED = [
    # name, a (the chief), b, whether the gang has left
    ("no host has left", {}, {}, False),
    ("a worker left, the others continue", {}, {"stopped": 1, "why": "peer"}, False),
    ("the chief left as asked: its checkpoint is made", {"stopped": 1, "why": "asked"}, {}, True),
    ("the chief left because EC2 takes it", {"stopped": 1, "why": "interrupted"}, {}, True),
    (
        "the chief left because a peer vanished, which may be the silent one",
        {"stopped": 1, "why": "peer"},
        {},
        False,
    ),
    ("the chief left, and the vanished peer is known", {"stopped": 1, "why": "peer"}, {"lost": "gone"}, True),
    ("all have left", {"stopped": 1, "why": "peer"}, {"stopped": 1, "why": "interrupted"}, True),
    ("a worker left and the chief is lost", {"lost": "gone"}, {"stopped": 1, "why": "peer"}, True),
    ("what they left was an earlier attempt", {"stopped": 0}, {"stopped": 0}, False),
    (
        "a worker that had finished waits for the next attempt",
        {"stopped": 1, "why": "peer"},
        {"ready": 2},
        True,
    ),
    ("this ends nothing by itself", {}, {"ready": 2}, False),
    (
        "the chief's program was killed; the others have yet to see it",
        {"stopped": 1, "why": "killed"},
        {},
        False,
    ),
    ("and now they have", {"stopped": 1, "why": "killed"}, {"stopped": 1, "why": "peer"}, True),
    ("the chief's program hangs: it may wait for the silent one", {"stopped": 1, "why": "hangs"}, {}, False),
    ("and that has left, too", {"stopped": 1, "why": "hangs"}, {"stopped": 1, "why": "asked"}, True),
]


@pytest.mark.parametrize(("a", "b", "left"), [row[1:] for row in STOPPED], ids=[row[0] for row in STOPPED])
def test_when_a_gang_has_left(a: dict[str, Any], b: dict[str, Any], left: bool) -> None:
    assert draining.gang_has_stopped(ledger(hosts={"i-a": host(**a), "i-b": host(**b)}), 1) is left


LEFT: dict[str, Any] = {"stopped": 1, "why": "asked"}
GOES: dict[str, Any] = {"stopped": 1, "why": "interrupted"}
PEER: dict[str, Any] = {"stopped": 1, "why": "peer"}
HANGS: dict[str, Any] = {"stopped": 1, "why": "hangs"}
SERVED = [
    # name, chief, worker, ps, whether the last checkpoint is made
    ("a parameter server left, the chief still saves", {}, {}, GOES, False),
    ("worker and parameter server left, the chief still saves", {}, PEER, GOES, False),
    ("the chief has saved and left as asked; who serves may serve on", LEFT, {}, {}, True),
    ("EC2 takes the chief, which has saved", GOES, {}, {}, True),
    ("the chief left for a peer that may be the one that serves on", PEER, {}, LEFT, False),
    ("the chief left for a peer, and all others as asked", PEER, LEFT, LEFT, True),
    ("the chief left for a parameter server that is gone, the worker as asked", PEER, LEFT, {"lost": "gone"}, True),
    ("the chief is gone and the others leave as asked", {"lost": "gone"}, LEFT, LEFT, True),
    ("the chief is gone and one still serves", {"lost": "gone"}, {}, LEFT, False),
    ("a worker was through, the others leave", PEER, {"ready": 2}, LEFT, True),
]  # fmt: skip


def served(chief: dict[str, Any], worker: dict[str, Any], ps: dict[str, Any]) -> Records:
    """Return a gang whose chief does not have the lowest id, with a parameter server in the second gang."""
    hosts = {"i-a": host(gang=2, **ps), "i-b": host(**chief), "i-c": host(**worker)}
    made = served_job({"workers": 1, "parameter_servers": 1})
    return ledger(hosts=hosts, job=serialization.to_json(made))


@pytest.mark.parametrize(
    ("chief", "worker", "ps", "made"), [row[1:] for row in SERVED], ids=[row[0] for row in SERVED]
)
def test_when_the_last_checkpoint_is_made_with_parameter_servers(
    chief: dict[str, Any], worker: dict[str, Any], ps: dict[str, Any], made: bool
) -> None:
    assert draining.gang_has_stopped(served(chief, worker, ps), 1) is made


ASKED = [
    # name, why the host left, whether the other hosts need an order, with parameter servers and without
    ("EC2 takes it", GOES, True),
    ("a peer of it vanished", PEER, True),
    ("its program hangs", HANGS, True),
    ("it was asked, as all were", LEFT, False),
    ("it continues", {}, False),
]


@pytest.mark.parametrize(("said", "told"), [row[1:] for row in ASKED], ids=[row[0] for row in ASKED])
def test_whoever_serves_has_to_be_told_that_the_attempt_ends(said: dict[str, Any], told: bool) -> None:
    assert draining.others_need_order(served({}, said, {}), 1, "i-c") is told
    all_reduced = ledger(hosts={"i-a": host(), "i-b": host(**said)})
    assert draining.others_need_order(all_reduced, 1, "i-b") is (said is HANGS)


@pytest.mark.parametrize(("said", "told"), [row[1:] for row in ASKED], ids=[row[0] for row in ASKED])
@pytest.mark.parametrize("who", ["i-b", "i-c"])
def test_beside_an_evaluator_everybody_has_to_be_told(who: str, said: dict[str, Any], told: bool) -> None:
    cluster = {"strategy": "multi_worker", "workers": 2, "evaluator": True}
    hosts = {"i-a": host(), "i-b": host(), "i-c": host(gang=2), who: host(**said)}
    evaluated = ledger(hosts=hosts, job={**JOB, "cluster": cluster})
    assert draining.others_need_order(evaluated, 1, who) is told


def test_the_chief_is_who_has_the_role() -> None:
    found = served({}, {}, {})
    assert [(role.value, host.instance) for role, host in found.assigned(1)] == [
        ("chief", "i-b"),
        ("worker", "i-c"),
        ("ps", "i-a"),
    ]
    chief = found.chief(1)
    assert chief is not None
    assert chief.instance == "i-b"
    assert found.chief(2) is None


KILLED_ROW = {"candidate": {"pool": "p"}, "hosts": ["i-a"], "launched": AT}
KILLED_AGAIN = [
    # name, the attempt before, this one, whether the run ends
    ("the first kill", {"reason": "a host is gone", "reported": 9}, {"reported": 9}, False),
    ("it came further", {"reason": "the program was killed on i-a", "reported": 9}, {"reported": 12}, False),
    ("no step more", {"reason": "the program was killed on i-a", "reported": 9}, {"reported": 9}, True),
    ("no step at all", {"reason": "the program was killed on i-a"}, {}, True),
    ("its first checkpoint", {"reason": "the program was killed on i-a"}, {"saved": AT}, False),
]


@pytest.mark.parametrize(
    ("before", "row", "final"), [row[1:] for row in KILLED_AGAIN], ids=[row[0] for row in KILLED_AGAIN]
)
def test_a_program_that_is_killed_twice_at_the_same_place_is_not_started_a_third_time(
    before: dict[str, Any], row: dict[str, Any], final: bool
) -> None:
    rows = ({"sk": "attempt#0001", **KILLED_ROW, **before}, {"sk": "attempt#0002", **KILLED_ROW, **row})
    found = ledger(*rows, hosts={"i-a": host(attempt=2, stopped=2, why="killed")})
    trouble = draining.interruption(found, 2, None)
    assert "the program was killed on i-a" in trouble.reason
    assert trouble.final is final


STRANDED = [
    # name, the host, the launch request, whether the attempt has its row, whether the host must end
    ("a part of an attempt that was then refused", {}, {"answer": "refused"}, False, True),
    ("one without a known answer: it is asked for again", {}, {}, False, False),
    ("a member of a whole attempt", {}, {"answer": "launched"}, True, False),
    ("one that is being ended", {"releasing": AT}, {"answer": "refused"}, False, False),
    ("a survivor of the attempt before", {"attempt": 1}, {"answer": "refused"}, False, False),
]


WELL = [
    # name, hosts that left and why, steps reported in this attempt, part of the reason, whether hosts can continue
    ("a program was killed in mid-training", {"why": "killed"}, 7, "was killed on i-a", True),
    ("a program left of its own", {"why": "peer"}, 7, "left for a restart", True),
    ("before it had come any further", {"why": "killed"}, 5, "was killed on i-a", False),
    ("it never reported a step", {"why": "peer"}, None, "left for a restart", False),
    ("EC2 takes a host", {"why": "interrupted"}, 7, "were interrupted or lost: i-a", False),
]


@pytest.mark.parametrize(
    ("left", "step", "words", "well"), [row[1:] for row in WELL], ids=[row[0] for row in WELL]
)
def test_hosts_that_have_trained_together_go_on_together(
    left: dict[str, Any], step: int | None, words: str, well: bool
) -> None:
    hosts = {"i-a": host(stopped=1, **left), "i-b": host(stopped=1, why="peer")}
    begun = {
        "sk": "attempt#0001",
        "candidate": {"pool": "p"},
        "hosts": sorted(hosts),
        "launched": AT,
        "from_step": 5,
    }
    run = {
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 1,
        "created": AT,
        "execution_arn": "arn",
        "job": JOB,
    }
    run["progress"] = {"attempt": 1, "step": step, "at": AT}
    trouble = draining.interruption(ledger(begun, run, hosts=hosts), 1, step)
    assert words in trouble.reason
    assert trouble.all_well is well


@pytest.mark.parametrize(
    ("values", "answer", "whole", "goes"), [row[1:] for row in STRANDED], ids=[row[0] for row in STRANDED]
)
def test_a_part_of_an_attempt_is_known_until_it_is_ended(
    values: dict[str, Any], answer: dict[str, Any], whole: bool, goes: bool
) -> None:
    request = {"sk": "launch-request#0002#000#000", "token": "t", "at": AT} | answer
    row = {"sk": "attempt#0002", "candidate": {}, "hosts": ["i-b"], "launched": AT}
    known = {"sk": "host#i-b", **(host(attempt=2) | values)}
    found = ledger(request, known, *([row] if whole else []))
    assert [each.instance for each in found.incomplete_gang(2)] == (["i-b"] if goes else [])


LEFT_BEHIND = [
    # name, host of the first attempt, the second one's row and launch request, whether the host is unreachable
    ("it stays", {}, {}, False),
    ("EC2 takes it back", {"warned": AT}, {}, True),
    ("it says that EC2 takes it back", {"why": "interrupted"}, {}, True),
    ("it is lost", {"lost": "it is silent"}, {}, True),
    ("it is lost, and gone", {"lost": "EC2 reports it is terminated", "ended": AT}, {}, False),
    ("a user ends it", {"warned": AT, "releasing": AT}, {}, False),
    ("the next attempt has begun", {"warned": AT}, {"hosts": ["i-b"]}, False),
    ("what is asked for it is not known", {"warned": AT}, {"token": "t"}, False),
    ("what was asked for it is known", {"warned": AT}, {"token": "t", "answer": "refused"}, True),
]


@pytest.mark.parametrize(
    ("values", "second", "behind"), [row[1:] for row in LEFT_BEHIND], ids=[row[0] for row in LEFT_BEHIND]
)
def test_a_kept_host_that_goes_before_the_next_attempt_is_known_until_it_is_ended(
    values: dict[str, Any], second: dict[str, Any], behind: bool
) -> None:
    begun = {"sk": "attempt#0002", "candidate": {}, "launched": AT} if "hosts" in second else None
    asked = {"sk": "launch-request#0002#000#000", "at": AT} if "token" in second else None
    found = ledger(*(row | second for row in (begun, asked) if row), hosts={"i-a": host(**values)})
    assert [each.instance for each in found.unreachable(2)] == (["i-a"] if behind else [])


GIVEN_UP = [
    # name, the attempt before (its end, step and checkpoint), this one's step, whether it is given up
    ("the first time", None, {}, None, False),
    ("twice in a row, and no step in all its life", "ProgramHangs", {}, None, True),
    ("step 0 is none", "ProgramHangs", {"reported": 0}, 0, True),
    ("it had trained before", "ProgramHangs", {"reported": 3}, None, False),
    ("it had saved before", "ProgramHangs", {"checkpointed": 1}, None, False),
    ("it has trained this time", "ProgramHangs", {}, 4, False),
    ("a host was lost before", "HostLost", {}, None, False),
    (
        "a mount was lost before",
        "ProgramHangs",
        {"reason": "the mount of data.train (s3://sets/a/) has ended"},
        None,
        False,
    ),
]
LOST_MOUNT = "the mount of data.train (s3://sets/digits/) has ended on this host"


@pytest.mark.parametrize(
    ("before", "values", "step", "final"), [row[1:] for row in GIVEN_UP], ids=[row[0] for row in GIVEN_UP]
)
def test_a_program_that_hangs_twice_and_comes_to_nothing_is_given_up(
    before: str | None, values: dict[str, Any], step: int | None, final: bool
) -> None:
    attempt = {"candidate": {"pool": "p"}, "hosts": ["i-a"], "launched": AT}
    rows = [
        {"sk": "attempt#0001", **attempt, "error": before, **values},
        {"sk": "attempt#0002", **attempt, "reported": step},
    ]
    run = {
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 2,
        "created": AT,
        "execution_arn": "arn",
    }
    run |= {"job": JOB, "progress": {"attempt": 2, "step": step, "at": AT}}
    hosts = {"i-a": host(stopped=2, why="hangs")}
    trouble = draining.interruption(ledger(*rows, run, hosts=hosts, attempt=2), 2, step)
    assert (trouble.error, trouble.final) == ("ProgramHangs", final)
    assert ("twice in a row" in trouble.reason) is final
    told = {"i-a": host(stopped=2, why="hangs", details=LOST_MOUNT)}
    trouble = draining.interruption(ledger(*rows, run, hosts=told, attempt=2), 2, step)
    assert f"{LOST_MOUNT} (i-a), so the program was ended" in trouble.reason
    assert not trouble.final, "the program itself does not hang"


HELD = [
    # name, remaining hosts as (gang, type, zone, market), index of the candidate that continues with them
    ("nobody", [], None),
    ("GPU hosts stay in their pool", [(1, "g6.xlarge", "us-east-1b", "spot")], 1),
    ("so do those in the other market", [(1, "g6.xlarge", "us-east-1b", "on_demand")], 2),
    ("both gangs stay", [(1, "g6.xlarge", "us-east-1b", "spot"), (2, "c7i.large", "us-east-1b", "spot")], 1),
    (
        "CPU hosts stay without others if a pool has their type beside it",
        [(2, "m7i.xlarge", "us-east-1a", "spot")],
        0,
    ),
]


@pytest.mark.parametrize(("survivors", "index"), [row[1:] for row in HELD], ids=[row[0] for row in HELD])
def test_survivors_hold_their_pool(survivors: list[tuple[int, str, str, str]], index: int | None) -> None:
    pools = [("us-east-1a", Market.SPOT), ("us-east-1b", Market.SPOT), ("us-east-1b", Market.ON_DEMAND)]
    candidates = [candidate("g6.xlarge", zone, market, ("c7i.large", "m7i.xlarge")) for zone, market in pools]
    plan = serialization.to_json(Plan(tuple(candidates), (), "ami-1", 5, None, NOON, "", 2))
    hosts = {
        f"i-{n}": host(gang=gang, type=kind, zone=zone, market=market)
        for n, (gang, kind, zone, market) in enumerate(survivors)
    }
    assert ledger({"sk": "plan", **plan}, hosts=hosts).held_candidate(2) == index


HUNG = [
    # name, the step reported in this attempt, the end of the attempt before it, the worker, hosts that continue
    ("it had trained", 7, None, {}, True),
    ("it never came further, and all hosts have answered", None, None, {}, True),
    ("the second time in vain", None, "ProgramHangs", {}, False),
    ("it had trained in between", 7, "ProgramHangs", {}, True),
    ("another trouble came before", None, "HostLost", {}, True),
    ("EC2 takes the worker meanwhile", 7, None, {"warned": AT}, False),
]


@pytest.mark.parametrize(
    ("step", "before", "worker", "well"), [row[1:] for row in HUNG], ids=[row[0] for row in HUNG]
)
def test_a_program_that_hung_is_the_reason_and_no_host_is(
    step: int | None, before: str | None, worker: dict[str, Any], well: bool
) -> None:
    hosts = {
        "i-a": host(stopped=2, why="hangs"),
        "i-b": host(stopped=2, why="asked", **worker),
        "i-c": host(stopped=2, why="peer"),
    }
    attempt = {"candidate": {"pool": "p"}, "hosts": sorted(hosts), "launched": AT, "from_step": 5}
    rows = [{"sk": "attempt#0001", **attempt, "error": before}, {"sk": "attempt#0002", **attempt}]
    run = {
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 2,
        "created": AT,
        "execution_arn": "arn",
    }
    run |= {"job": JOB, "progress": {"attempt": 2, "step": step, "at": AT}}
    trouble = draining.interruption(ledger(*rows, run, hosts=hosts, attempt=2), 2, step)
    assert (trouble.error, trouble.all_well) == ("ProgramHangs", well)
    assert trouble.lost == (("i-b",) if worker else ())
    assert "for 12 minutes the program has shown no work" in trouble.reason
    assert not trouble.final, "it began from a checkpoint"
    assert "runs/digits-1/attempts/2/logs/chief-0/" in trouble.reason
    assert ("i-" in trouble.reason) is bool(worker)


def test_an_interruption_names_the_hosts_that_go() -> None:
    hosts = {
        "i-a": host(stopped=1, why="asked"),
        "i-b": host(stopped=1, why="interrupted"),
        "i-c": host(stopped=1, why="peer", warned=AT),
    }
    trouble = draining.interruption(ledger(hosts=hosts), 1, 40)
    assert (trouble.error, trouble.lost, trouble.step) == ("Interrupted", ("i-b", "i-c"), 40)


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        ({}, "; no checkpoint has been saved"),
        ({"saved": AT, "checkpointed": 30}, "its last save, of step 30, was 34 s old"),
        ({"saved": AT}, "its last save was 34 s old"),
    ],
)
def test_an_interruption_claims_no_checkpoint_that_nobody_made(saved: dict[str, Any], words: str) -> None:
    hosts = {"i-a": host(stopped=1, why="interrupted", stopped_at=serialization.timestamp(after(34)))}
    row = {"sk": "attempt#0001", "candidate": {}, "hosts": ["i-a"], "launched": AT, **saved}
    assert words in draining.interruption(ledger(row, hosts=hosts), 1, 40).reason


LIVES = [
    ("a host that runs", {}, True),
    ("one that is lost", {"lost": "gone"}, False),
    ("one that Release is about to end", {"releasing": AT}, False),
    ("one that ended", {"ended": AT}, False),
    ("not one that EC2 takes back in two minutes", {"warned": AT}, False),
    ("nor one that said so itself", {"stopped": 1, "why": "interrupted"}, False),
    ("one that left because it was asked", {"stopped": 1, "why": "asked"}, True),
]


@pytest.mark.parametrize(("values", "lives"), [row[1:] for row in LIVES], ids=[row[0] for row in LIVES])
def test_who_the_next_attempt_goes_on_with(values: dict[str, Any], lives: bool) -> None:
    found = ledger(hosts={"i-a": host(**values), "i-new": host(attempt=2)})
    assert [survivor.instance for survivor in found.remaining(2)] == (["i-a"] if lives else [])


READY = [
    # name, the attempt that the host was ready for (0: never), attempts that reached Train, ready for 2
    ("it said so", 2, [1], True),
    ("it said so already for a later one", 3, [1], True),
    ("it never said so", 0, [], False),
    ("it was started since", 1, [1], False),
    ("the attempt it was ready for ended in AwaitHosts", 1, [], True),
]


@pytest.mark.parametrize(("said", "trained", "ready"), [r[1:] for r in READY], ids=[r[0] for r in READY])
def test_who_waits_for_the_start_of_the_second_attempt(said: int, trained: list[int], ready: bool) -> None:
    tokens = [{"sk": f"token#{n:04d}#train", "token": "t", "stored": AT} for n in trained]
    found = ledger(*tokens, hosts={"i-a": host(ready=said)}, attempt=2)
    assert found.ready(2) == ({"i-a"} if ready else set())


GOING = [
    ("a host that stays", {}, None),
    ("one that left because it was asked", {"stopped": 1, "why": "asked"}, None),
    ("one that is lost", {"lost": "gone", "warned": AT}, "gone"),
    ("one that EC2 warned of", {"warned": AT}, "EC2 takes it back"),
    ("one that heard it itself", {"stopped": 1, "why": "interrupted"}, "EC2 takes it back"),
]


@pytest.mark.parametrize(("values", "why"), [row[1:] for row in GOING], ids=[row[0] for row in GOING])
def test_why_nobody_can_count_on_a_host(values: dict[str, Any], why: str | None) -> None:
    assert ledger(hosts={"i-a": host(**values)}).hosts["i-a"].ending_reason == why


def test_a_lost_answer_is_found_by_its_launch_request() -> None:
    asked = {"sk": "launch-request#0001#002#000", "token": "t", "at": AT}
    open_ask = ledger(asked).unanswered(1)
    assert open_ask is not None
    assert (open_ask.candidate, open_ask.round) == (2, 0)
    assert ledger(asked | {"answer": "launched"}).unanswered(1) is None
    assert ledger(asked).unanswered(2) is None


def test_refusals_are_told_as_they_happened() -> None:
    rows = [
        {
            "sk": f"launch-request#0001#{candidate:03d}#{round_:03d}",
            "token": "t",
            "at": AT,
            "answer": "refused",
            "refusal": "quota",
            "answered": AT,
        }
        for round_, candidate in ((1, 0), (0, 1), (0, 0))
    ]
    assert [refusal.round for refusal in ledger(*rows).refusals(1)] == [0, 0, 1]


def several_asked(**more: Any) -> records.Records:
    """Return the ledger of an attempt that asks three capacity pools in one request."""
    plan = Plan(
        tuple(candidate("g6.xlarge", f"us-east-1{zone}") for zone in "abc"), (), "ami-1", 2, None, NOON, ""
    )
    row = {"sk": "launch-request#0001#000#001", "token": "t", "at": AT, "batch": [1, 2]}
    return ledger({"sk": "plan", **serialization.to_json(plan)}, row | more)


def test_a_request_for_several_pools_is_each_ones_refusal() -> None:
    said = [
        {"candidate": 0, "kind": "capacity", "code": "UnfulfillableCapacity", "reason": "none"},
        {"candidate": 1, "kind": "unsupported", "code": "Unsupported", "reason": "never"},
    ]
    found = several_asked(answer="refused", refusal="capacity", code="Unsupported", refusals=said)
    assert [(no.candidate, no.round, no.kind, no.batch) for no in found.refusals(1)] == [
        (0, 1, RefusalKind.CAPACITY, 0),
        (1, 1, RefusalKind.UNSUPPORTED, 0),
    ]
    assert [(row["pool"], row["code"]) for row in found.requested_candidates()] == [
        ("g6.xlarge in us-east-1a, spot", "UnfulfillableCapacity"),
        ("g6.xlarge in us-east-1b, spot", "Unsupported"),
    ]


def test_a_part_that_is_refused_in_the_pool_that_was_taken_is_that_pools_refusal() -> None:
    found = several_asked(answer="refused", chosen=2, gang=2, refusal="capacity", code="c", reason="r")
    assert [(no.candidate, no.gang, no.batch) for no in found.refusals(1)] == [(2, Gang.CPU, 0)]


@pytest.mark.parametrize(
    ("answer", "pools"),
    [
        pytest.param({}, ["a", "b", "c"], id="the chosen one is unknown"),
        pytest.param({"answer": "launched", "chosen": 1}, ["b"], id="the one that EC2 chose"),
    ],
)
def test_what_was_asked_at_once_is_told_by_its_pools(answer: dict[str, Any], pools: list[str]) -> None:
    found = several_asked(**answer)
    assert [row["pool"] for row in found.requested_candidates()] == [
        f"g6.xlarge in us-east-1{zone}, spot" for zone in pools
    ]
    assert {row["answer"] for row in found.requested_candidates()} == {answer.get("answer", "unknown")}


def test_a_token_that_was_answered_waits_no_more() -> None:
    readiness = {"sk": "token#0001#await_hosts", "token": "m", "stored": AT, "answered": AT}
    train = {"sk": "token#0001#train", "token": "t", "stored": AT}
    found = ledger(readiness, train).waiting(1)
    assert found is not None
    assert found.token == "t"
    assert ledger(readiness).waiting(1) is None


def test_an_attempt_tells_its_trouble_again() -> None:
    ended = {
        "sk": "attempt#0001",
        "candidate": {},
        "hosts": [],
        "launched": AT,
        "ending": "lost",
        "error": "HostLost",
        "cause": Trouble(error="HostLost", reason="gone", lost=("i-a",)).to_cause(),
    }
    row = ledger(ended).attempts[1]
    assert row.ending is Ending.LOST
    trouble = trouble_of(row)
    assert trouble is not None
    assert trouble.lost == ("i-a",)


def test_dollars_shorten_what_the_hours_allow() -> None:
    hosts = {"i-a": host(), "i-b": host()}
    two_for_three_dollars = deadlines.deadline(ledger(hosts=hosts), 1, NOON)
    assert abs((two_for_three_dollars - after(3600 * (3 - 2 / 60) / 2)).total_seconds()) < 1
    assert deadlines.deadline(ledger(hosts={"i-a": host(price=0.1)}), 1, NOON) == after(2 * 3600)


def test_a_run_may_spend_what_its_job_says() -> None:
    assert deadlines.out_of_money(ledger(hosts={"i-a": host()}), after(3600)) is None
    said = deadlines.out_of_money(ledger(hosts={"i-a": host(price=3.5)}), after(3600))
    assert said is not None
    assert said.endswith("; start it again with a higher cap"), "it has left no checkpoint to resume"
    assert "$3.50" in said
    assert "limits.dollars" in said


def test_the_heartbeat_is_shorter_than_the_wait() -> None:
    lasts, silent = deadlines.train_timeouts(ledger(hosts={"i-a": host()}), 1, after(3 * 3600))
    assert silent < lasts == 61
    assert deadlines.train_timeouts(ledger(hosts={"i-a": host()}), 1, NOON)[1] == 150


DISPOSALS = [
    # name, market, after, kept, the run has ended, act
    ("a run that is over ends its hosts", Market.SPOT, Hosts.TERMINATE, False, True, Act.TERMINATE),
    (
        "an on-demand host stops when the job keeps its hosts",
        Market.ON_DEMAND,
        Hosts.STOP,
        False,
        True,
        Act.STOP,
    ),
    ("a fleet's spot host cannot stop", Market.SPOT, Hosts.STOP, False, True, Act.TERMINATE),
    ("the end of the run keeps no host", Market.SPOT, Hosts.TERMINATE, True, True, Act.TERMINATE),
    ("between attempts a survivor stays", Market.SPOT, Hosts.TERMINATE, True, False, Act.KEEP),
    ("between attempts no host is stopped", Market.ON_DEMAND, Hosts.STOP, False, False, Act.TERMINATE),
]


@pytest.mark.parametrize(
    ("market", "hosts", "kept", "over", "act"), [r[1:] for r in DISPOSALS], ids=[r[0] for r in DISPOSALS]
)
def test_what_becomes_of_a_host(market: Market, hosts: Hosts, kept: bool, over: bool, act: Act) -> None:
    keep = {"i-a"} if kept else set()
    (found,) = dispose([("i-a", market)], after=hosts, keep=keep, run_is_over=over)
    assert found.act is act
    assert found.reason


def test_a_host_with_a_fault_of_its_hardware_never_stays() -> None:
    for over in (False, True):
        (found,) = dispose(
            [("i-a", Market.ON_DEMAND)], after=Hosts.STOP, keep={"i-a"}, run_is_over=over, faulty={"i-a"}
        )
        assert found == Disposal("i-a", Act.TERMINATE, "its hardware has failed")


USED_UP = [
    # name, hosts, hours after the run began, message
    (
        "the time is over",
        1,
        2,
        "stopped at its cap of 2 hours (limits.hours) after step 1,840, 2.00 hours",
    ),
    ("neither is over", 2, 0.5, None),
    (
        "the money is over before the time",
        2,
        1.6,
        "stopped at its cap of $3.00 (limits.dollars) after step 1,840",
    ),
]


@pytest.mark.parametrize(
    ("hosts", "hours", "said"), [row[1:] for row in USED_UP], ids=[row[0] for row in USED_UP]
)
def test_which_cap_is_reached_is_said_in_figures(hosts: int, hours: float, said: str | None) -> None:
    gang = {f"i-{n}": host() for n in range(hosts)}
    row = {"sk": "attempt#0001", "candidate": {}, "hosts": sorted(gang), "launched": AT, "saved": AT}
    found = deadlines.used_up(ledger(row, hosts=gang), 1, after(hours * 3600), step=1840)
    assert found is None if said is None else said in (found or "")
    assert found is None or " old; resume with checkpoints.resume: digits-1" in found


@pytest.mark.parametrize("step", [None, 1840])
def test_a_run_at_its_cap_that_has_saved_nothing_has_nothing_to_resume(step: int | None) -> None:
    found = deadlines.used_up(ledger(hosts={"i-a": host()}), 1, after(2 * 3600), step=step)
    assert found is not None
    assert ("after step 1,840" in found) is (step is not None)
    assert found.endswith("; no checkpoint has been saved; start it again with a higher cap")


@pytest.mark.parametrize(
    ("row", "why", "at_its_limit"),
    [({}, "asked", False), ({"capped": AT}, "asked", True), ({}, "limit", True), ({}, "interrupted", False)],
)
def test_a_gang_leaves_at_its_limit_because_patrol_asked_or_a_host_found_out(
    row: dict[str, Any], why: str, at_its_limit: bool
) -> None:
    gang = {"sk": "attempt#0001", "candidate": {"pool": "p"}, "hosts": ["i-a", "i-b"], "launched": AT} | row
    left = ledger(gang, hosts={"i-a": host(stopped=1, why=why), "i-b": host()})
    assert draining.is_at_limit(left, 1) is at_its_limit


def test_a_builder_that_follows_one_taken_back_is_asked_for_on_demand_first() -> None:
    taken = {"sk": "attempt#0001", "candidate": {}, "hosts": ["i-a"], "launched": AT, "ending": "interrupted"}
    lost = taken | {"ending": "lost"}
    bake = {
        "sk": "run",
        "kind": "bake",
        "state": "Launch",
        "attempt": 2,
        "created": AT,
        "execution_arn": "arn",
    }
    for rows, first in (
        ((bake, taken), Market.ON_DEMAND),
        ((bake, lost), None),
        ((bake | {"kind": "train"}, taken), None),
    ):
        found = records.from_rows("gpu-1", rows)
        assert found is not None
        assert found.first_market(2) is first
        assert found.first_market(1) is None


def test_a_lone_host_that_failed_is_followed_by_one_of_another_pool_first() -> None:
    asked = {"sk": "launch-request#0001#002#000", "token": "t", "at": AT, "answer": "launched"}
    refused = asked | {"sk": "launch-request#0001#001#000", "answer": "refused"}
    launch = {
        "sk": "run",
        "kind": "dev-host",
        "state": "Launch",
        "attempt": 2,
        "created": AT,
        "execution_arn": "a",
    }
    found = records.from_rows("host-1", (launch, asked, refused))
    assert found is not None
    assert found.failed_candidates(2) == (2,)
    assert found.failed_candidates(1) == ()
    train = records.from_rows("host-1", (launch | {"kind": "train"}, asked))
    assert train is not None
    assert train.failed_candidates(2) == ()


def test_a_run_is_one_executions_alone() -> None:
    row = {
        "sk": "run",
        "kind": "dev-host",
        "state": "Admit",
        "attempt": 1,
        "created": AT,
        "execution_arn": "mine",
    }
    found = records.from_rows("host-1", (row,))
    assert found is not None
    assert found.run.is_of("mine")
    assert found.run.is_of(None)
    assert found.run.is_of("mine", NOON)
    assert not found.run.is_of("another's")
    assert not found.run.is_of("mine", after(91 * 24 * 3600))


def test_a_wait_knows_since_when_and_what_for() -> None:
    run = {
        "sk": "run",
        "kind": "bake",
        "state": "Install",
        "attempt": 1,
        "created": AT,
        "execution_arn": "arn",
    }
    found = records.from_rows("gpu-1", [run, {"sk": "wait#0001#install", "since": AT, "command": "c-1"}])
    assert found is not None
    wait = found.waits[1, "install"]
    assert (wait.since, wait.command, wait.image) == (NOON, "c-1", None)
