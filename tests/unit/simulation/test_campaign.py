"""Cases and their texts, random selection, findings, traces and reports."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from simulation import detection, timeline
from simulation.cases import case, selection, traces
from simulation.cases.case import BadInputError, Case, Finding, Violation
from simulation.cases.selection import Clean, Spaces
from simulation.detection import Detection, Visibility
from simulation.faults import Fault, FaultPoint, Kind, Visit, find_equivalent
from simulation.report import page, summary
from simulation.report.summary import Count
from simulation.timeline import Decision, Line, Sort
from simulation.world.world import BEGINNING, Entry

THROTTLED = Fault(Kind.REQUEST, "train-launch#1/3 ec2.create_fleet", "throttled once")
DENIED = Fault(Kind.REQUEST, "train-launch#1/3 ec2.create_fleet", "access denied")
HANGS = Fault(Kind.HOST, "host-1 after progress #2", "hangs")
DIES = Fault(Kind.HOST, "host-2 after started #1", "dies")
LOST = Fault(Kind.EVENT, "HostSignal ready host-1 #1", "lost")
SPACES: Spaces = {"train": (THROTTLED, DENIED, HANGS, DIES, LOST), "bake": (THROTTLED, LOST)}
ORPHAN = Violation(
    "no orphan", "i-00000000000000003 (running): still there 4 patrol passes after the end", 300.0
)


# ------------------------------------------------------------------------------------------------- the text of a case


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Case("train"), "train"),
        (Case("train", (THROTTLED,)), "train: request train-launch#1/3 ec2.create_fleet: throttled once"),
        (Case("bake", seed=57), "bake@57"),
        (
            Case("train", (HANGS, LOST), 57),
            "train@57: host host-1 after progress #2: hangs + event HostSignal ready host-1 #1: lost",
        ),
    ],
)
def test_a_case_is_read_back_from_its_text(made: Case, text: str) -> None:
    assert str(made) == text
    assert case.parse(f" {text}\n") == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trian: pool fleet request #1: refuses once", "did you mean train?"),
        ("nothing", "valid: train"),
        ("train@x", "'x' is not a number"),
        ("train: pool fleet request #1: explodes", "is not a fault"),
        ("train: nonsense", "is not a fault"),
    ],
)
def test_a_text_that_names_no_world_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said) as refused:
        case.parse(text)
    assert "\n" not in str(refused.value)


def test_causes_of_two_worlds_are_equal_without_their_ids() -> None:
    one = "two-cf1324de is billed for 512 s, EC2 says 702 s of 3 (i-00000000000000003, i-00000000000000004)"
    other = "two-0a1b2c3d is billed for 99 s, EC2 says 7.5 s of 2 (i-00000000000000001, i-0000000000000000f)"
    assert case.mask_ids(one) == case.mask_ids(other)
    assert "EC2" in case.mask_ids(one)


def test_violations_of_one_invariant_and_cause_are_a_group_with_the_shortest_first() -> None:
    other = Violation("one end", "two-cf1324de is FAILED, and there is no summary", 1.0)
    pair = Finding(Case("train", (HANGS, LOST), 3), violations=(ORPHAN,))
    single = Finding(Case("train", (HANGS,)), violations=(ORPHAN, other))
    groups = case.group_findings([Finding(Case("train")), pair, single])
    assert [(group.invariant, len(group.findings)) for group in groups] == [("no orphan", 2), ("one end", 1)]
    assert groups[0].findings[0] is single


# ------------------------------------------------------------------------------------------------------- what is chosen


def test_a_seed_determines_the_chosen_faults() -> None:
    cases = [selection.choose_case(SPACES, seed) for seed in range(200)]
    assert cases == [selection.choose_case(dict(SPACES), seed) for seed in range(200)]
    assert len({(each.scenario, each.faults) for each in cases}) > 15
    assert [each.seed for each in cases] == list(range(200))


def test_two_or_three_faults_are_chosen_at_different_fault_points() -> None:
    for seed in range(200):
        faults = selection.choose_case(SPACES, seed).faults
        assert 2 <= len(faults) <= 3
        assert len({(fault.kind, fault.point) for fault in faults}) == len(faults)


def test_only_requested_kinds_are_tried() -> None:
    assert selection.select_kinds(SPACES, [Kind.HOST]) == {"train": (HANGS, DIES)}
    assert selection.list_singles({"bake": (LOST,)}) == [Case("bake", (LOST,))]


def test_a_scenario_that_begins_like_another_keeps_its_own_fault_points() -> None:
    admitted = Fault(Kind.INVOCATION, "snapshot-admit#1", "out of memory")
    spaces = selection.drop_shared({"snapshot": (HANGS, admitted, DIES), "train": (HANGS, DIES)})
    assert spaces == {"snapshot": (admitted, DIES), "train": (HANGS, DIES)}
    assert selection.select_kinds(spaces, [Kind.HOST])["snapshot"] == (DIES,)


def visit(what: str, *operations: str, during: str = "train Train #1") -> Visit:
    return Visit(during, what, operations)


def test_the_first_and_last_equivalent_fault_points_are_tried_and_the_last_request() -> None:
    """The third worker's signal completes the gang, so the function sends more requests."""
    alone = visit("signal started worker /1 get_item", "get_item")
    points: dict[FaultPoint, Visit | None] = {
        (Kind.HOST, f"host-{n} after started #1"): visit("worker after started") for n in (2, 3, 4, 5)
    }
    points |= {(Kind.HOST, "host-1 after started #1"): visit("chief after started")}
    points |= {(Kind.HOST, "host-3 after started #2"): visit("worker after started", during="train Train #2")}
    points |= {(Kind.REQUEST, f"signal#{n}/1 get_item"): alone for n in (1, 2)}
    points |= {(Kind.REQUEST, "signal#3/1 get_item"): visit(alone.about, "get_item", "send_task_success")}
    points |= {(Kind.STATE, "train Train #1"): None, (Kind.STATE, "train Train #2"): None}
    others = find_equivalent(points)
    assert others == {
        (Kind.HOST, "host-3 after started #1"),
        (Kind.HOST, "host-4 after started #1"),
        (Kind.REQUEST, "signal#1/1 get_item"),
    }
    clean = {"train": Clean(Finding(Case("train")), equivalent=others)}
    hangs = [Fault(Kind.HOST, f"host-{n} after started #1", "hangs") for n in (2, 3, 4, 5)]
    assert selection.drop_equivalent({"train": tuple(hangs)}, clean) == {"train": (hangs[0], hangs[3])}


def test_a_sample_is_of_that_size_and_another_for_another_seed() -> None:
    cases = [Case("train", seed=number) for number in range(100)]
    assert len(selection.sample(cases, 10, seed=1)) == 10
    assert selection.sample(cases, 10, seed=1) != selection.sample(cases, 10, seed=2)
    assert selection.sample(cases, 100, seed=1) == cases


def test_every_smaller_set_of_faults_is_tried_the_smallest_first() -> None:
    fewer = list(selection.list_subsets(Case("train", (HANGS, DIES, LOST), 9)))
    assert [len(each.faults) for each in fewer] == [0, 1, 1, 1, 2, 2, 2]
    assert {each.seed for each in fewer} == {9}


# ------------------------------------------------------------------------------------------------------------- traces


def entry(seconds: float, who: str, what: str, **details: Any) -> Entry:
    return Entry(BEGINNING + timedelta(seconds=seconds), who, what, details)


HOST = "i-00000000000000001"
RUN = "trainyard-train two-cf1324de"
TRACE = [
    entry(0, HOST, "sends ready", attempt=1),
    entry(1, RUN, "enters Train"),
    entry(20, HOST, f"fault: {HANGS.what}", point=HANGS.point),
    entry(94, RUN, "catches HostLost", state="Train", cause='{"reason": "it hangs", "lost": []}'),
    entry(94.5, RUN, "enters Recover"),
    entry(95, RUN, "enters Pause"),
    entry(101, "ec2", "fleet", market="spot", wanted=1),
]


def test_a_trace_is_read_back_and_says_which_world_it_is_of(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    traces.write_trace(path, Case("train", (HANGS,)), TRACE)
    assert traces.read_trace(path) == (str(Case("train", (HANGS,))), list(traces.trace_lines(TRACE)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            json.dumps({"trainyard trace": 99, "of": "train"}),
            "is a trace of version 99, but version 1 is needed",
        ),
        ("", "is not a trace"),
        ("[1, 2]\n", "is not a trace"),
        ("root:x:0:0\n", "is not a trace"),
    ],
)
def test_a_file_that_is_not_a_trace_of_this_version_is_refused_in_one_line(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(BadInputError, match=said):
        traces.read_trace(path)


def test_another_instant_makes_another_digest() -> None:
    assert traces.digest(TRACE) == traces.digest(list(TRACE))
    assert traces.digest(TRACE) != traces.digest([*TRACE[:-1], entry(101.001, "ec2", "fleet")])


# ------------------------------------------------------------------------------------------------- times and timelines


def test_detection_is_counted_from_the_fault_to_the_request_for_the_next_attempt() -> None:
    found = detection.measure_detection(HANGS, TRACE)
    assert found == Detection(HANGS, ec2=0.0, noticed=74.0, requested=81.0)
    assert found is not None
    assert (found.visibility, found.late) == (Visibility.UNREPORTED, False)


def test_a_host_that_hangs_before_it_was_ready_is_one_that_is_to_boot() -> None:
    found = detection.measure_detection(HANGS, TRACE[1:])
    assert found is not None
    assert (found.visibility, found.late) == (Visibility.BOOTING, False)


def test_a_fault_without_a_further_request_has_no_detection() -> None:
    assert detection.measure_detection(HANGS, TRACE[:4]) is None
    assert detection.measure_detection(DIES, TRACE) is None
    assert detection.measure_detection(THROTTLED, TRACE) is None


def test_the_table_of_detections_has_a_row_by_fault_and_what_was_worst() -> None:
    dies = [Detection(DIES, ec2=0.0, noticed=1.0, requested=requested) for requested in (8.0, 9.0, 45.0)]
    [reported, silent] = detection.table([Detection(HANGS, ec2=0.0, noticed=74.0, requested=81.0), *dies])
    assert (reported.fault, reported.worlds, reported.most, reported.held) == ("dies", 3, 45.0, False)
    assert (silent.fault, silent.limit, silent.held) == ("hangs", 180.0, True)
    assert "| dies | 3 | 0.0 | +1.0 | +8.0 | 45.0 | 30 |" in detection.markdown([reported, silent])


def test_a_story_has_decisions_among_what_happened_and_numbers_for_hosts() -> None:
    decided = Decision(BEGINNING + timedelta(seconds=93), "two-cf1324de", "host lost", f"{HOST} hangs", 1)
    lines = timeline.build_lines(TRACE, [decided])
    assert [line.seconds for line in lines] == [0, 1, 20, 93, 94, 94.5, 95, 101]
    assert lines[3] == Line(
        93, "08:01:33", "two-cf1324de", "host lost (attempt 1)", "host-1 hangs", Sort.DECISION
    )
    assert (lines[2].who, lines[2].sort) == ("host-1", Sort.FAULT)
    assert lines[4].why == "state Train; it hangs"
    assert lines[1].who == "two-cf1324de"


def test_repeated_signals_of_a_host_are_one_line() -> None:
    said = [entry(number, HOST, "sends progress", step=number) for number in range(3)]
    [line] = timeline.build_lines(said)
    assert (line.what, line.why) == ("sends progress, 3 times", "last: step 2")


def test_repeated_failures_of_a_function_are_one_line() -> None:
    fails = [
        entry(number, f"dev-host-await-host#{number}", "fails", error="NotRegistered")
        for number in range(1, 5)
    ]
    other = entry(9, "dev-host-await-host#5", "fails", error="AccessDenied")
    lines = timeline.build_lines([*fails, other])
    assert [(line.what, line.why) for line in lines] == [
        ("fails, 4 times", "error NotRegistered"),
        ("fails", "error AccessDenied"),
    ]


# -------------------------------------------------------------------------------------------------- counts and the page


FINDINGS = [
    Finding(Case("train"), outcome="trainyard-train two: SUCCEEDED", seconds=190, cpu=0.3),
    Finding(Case("train", (HANGS,)), (HANGS,), (ORPHAN,), "trainyard-train two: SUCCEEDED", 1, 370, 0.6),
    Finding(Case("train", (DIES,)), (DIES,), (), "trainyard-train two: SUCCEEDED", 1, 300, 0.6),
    Finding(Case("train", (DENIED,)), (DENIED,), (), "trainyard-train two: FAILED AccessDenied", 0, 10, 0.1),
    Finding(Case("train", (THROTTLED,)), (), (), "trainyard-train two: SUCCEEDED", 0, 190, 0.1),
    Finding(
        Case("bake", (THROTTLED, LOST), 7), (LOST,), (ORPHAN,), "trainyard-bake x: SUCCEEDED", 0, 90, 0.1
    ),
]


def test_worlds_are_counted_by_scenario_and_kind() -> None:
    rows = {(row.scenario, row.kind): row for row in summary.counts(FINDINGS)}
    hosts = rows["train", "host"]
    assert (hosts.worlds, hosts.held, hosts.broken, hosts.recoveries, hosts.median) == (2, 1, 1, 2, 335)
    assert (rows["train", "request"].worlds, rows["train", "request"].injected) == (2, 1)
    assert list(rows) == [("train", "clean"), ("train", "host"), ("train", "request"), ("bake", "2 faults")]


def test_the_matrix_tells_apart_what_held_what_recovered_what_ended_and_what_broke() -> None:
    [hosts, requests, pairs] = page.matrices(FINDINGS)
    assert hosts["rows"] == [(HANGS.point, "b."), (DIES.point, ".r")]
    assert requests["rows"] == [(THROTTLED.point, "en")]
    assert list(hosts["broken"]) == [f"{HANGS.point}: hangs"]
    assert pairs["whats"] == ["event: lost", "request: throttled once"]
    assert pairs["rows"] == [("event: lost", ".b"), ("request: throttled once", "b.")]


def test_the_page_needs_nothing_else_and_is_safe_from_what_it_shows() -> None:
    evil = Violation("one end", "</script><script>alert(1)</script>", 1.0)
    findings = [*FINDINGS, Finding(Case("train", (LOST,)), (LOST,), (evil,))]
    about = page.Campaign(
        title="Trainyard, simulated",
        command="make simulate",
        commit="abc",
        when=datetime(2026, 1, 1, tzinfo=UTC),
        wall_seconds=61,
        findings=findings,
        groups=case.group_findings(findings),
        timelines={Case("train", (HANGS,)): timeline.build_lines(TRACE)},
    )
    html = page.render_page(about)
    assert "3 of 7 worlds break an invariant" in html
    assert Case("train", (HANGS,)).command in unescape(html)
    assert "<script>alert" not in html
    assert "http://" not in html
    assert "https://" not in html


def test_the_table_of_a_campaign_adds_its_rows_up() -> None:
    rows = [Count("train", "host", 10, 9, 1, 4, 60.0, 1.5), Count("train", "event", 5, 5, 0, 2, 60.0, 1.0)]
    table = summary.count_table(rows)
    assert [list(column.cells)[-1] for column in table.columns[2:7]] == ["15", "14", "14", "1", "6"]
