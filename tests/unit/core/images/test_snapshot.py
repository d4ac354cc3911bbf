"""Requests for snapshots, and the tags of their images."""

from typing import Any

import pytest

from lambdas.core.images import snapshot
from lambdas.core.images.snapshot import SnapshotHost, SnapshotRequest
from lambdas.core.run import outcome
from lambdas.core.run.outcome import Conclusion
from lambdas.core.run.recovery import Trouble
from tests.unit.core.builders import AMI, an_image, ended_run
from trainyard.core.model.images import imaging
from trainyard.core.model.images.image import Image
from trainyard.protocol.cluster import Assignment, Role
from trainyard.protocol.imaging import Imaging, Quiesce, Then
from trainyard.protocol.ledger.run import Outcome
from trainyard.protocol.plan import Market
from trainyard.values.validation import InputFaults

HOST = "i-0123456789abcdef0"


def host(**changes: Any) -> SnapshotHost:
    """Return an idle on-demand host that is left of a run of the job digits."""
    known: dict[str, Any] = {
        "instance": HOST,
        "type": "g6.xlarge",
        "mine": True,
        "state": "running",
        "market": Market.ON_DEMAND,
        "online": True,
        "image": AMI,
        "parent": an_image(kind="baked", family="gpu", driver="595.71.05", cuda="12.5", tensorflow="2.21.0"),
        "run": "digits-1a2b3c4d",
        "kind": "train",
        "family": "digits",
        "step": 120,
    }
    return SnapshotHost(**(known | changes))


def admitted(asked: SnapshotRequest, seen: SnapshotHost) -> Imaging:
    answer = snapshot.admit(asked, seen, baked=["gpu"])
    assert isinstance(answer, Imaging), answer
    return answer


def refused(asked: SnapshotRequest, seen: SnapshotHost) -> str:
    answer = snapshot.admit(asked, seen, baked=["gpu"])
    assert isinstance(answer, InputFaults), answer
    return answer.reason


READ = [
    ({"instance": HOST}, SnapshotRequest(instance=HOST)),
    ({"run": "digits-1"}, SnapshotRequest(run="digits-1")),
    (
        {
            "run": "digits-1",
            "role": "worker",
            "index": 2,
            "name": "tuned",
            "quiesce": "stop",
            "then": "terminate",
        },
        SnapshotRequest(
            run="digits-1",
            role=Role.WORKER,
            index=2,
            name="tuned",
            quiesce=Quiesce.STOP,
            then=Then.TERMINATE,
        ),
    ),
]


@pytest.mark.parametrize(("given", "asked"), READ)
def test_an_input_without_faults_is_read_with_its_defaults(given: object, asked: SnapshotRequest) -> None:
    assert snapshot.read_input(given) == asked


FAULTS = [
    ({}, ["neither instance nor run"]),
    ({"instance": HOST, "run": "digits-1"}, ["both instance and run"]),
    ({"instance": "the chief"}, ["instance: "]),
    ({"instance": HOST, "role": "worker"}, ["role: selects a host of a run"]),
    (
        {"run": "digits-1", "name": "A", "quiesce": "freeze", "then": "burn", "els": 1},
        ["els: unknown key", "name: ", "quiesce: ", "then: "],
    ),
    ("digits", ["found"]),
]


@pytest.mark.parametrize(("given", "said"), FAULTS)
def test_every_fault_of_an_input_is_told_at_once(given: object, said: list[str]) -> None:
    answer = snapshot.read_input(given)
    assert isinstance(answer, InputFaults)
    assert "no image was made and no host was touched" in answer.reason
    for each in said:
        assert each in answer.reason


SEATS = (Assignment("i-a", Role.CHIEF, 0, "10.0.0.1"), Assignment("i-b", Role.WORKER, 1, "10.0.0.2"))


def test_a_host_is_named_by_its_assignment() -> None:
    assert snapshot.find_assigned(SnapshotRequest(run="r"), SEATS) == "i-a"
    assert snapshot.find_assigned(SnapshotRequest(run="r", role=Role.WORKER, index=1), SEATS) == "i-b"
    nobody = snapshot.find_assigned(SnapshotRequest(run="r", role=Role.PS), SEATS)
    assert isinstance(nobody, InputFaults)
    assert "has no ps 0; it has chief 0, worker 1" in nobody.reason


SPOT = Market.SPOT
REFUSED = [
    ("not the yard's", {}, {"mine": False}, "is not a host of this yard"),
    (
        "still booting",
        {},
        {"state": "pending"},
        "is pending; only a running or stopped host can be imaged; wait",
    ),
    ("gone", {}, {"state": "terminated"}, "is terminated"),
    ("spot cannot be stopped first", {"quiesce": Quiesce.STOP}, {"market": SPOT}, "use pause or reboot"),
    ("spot cannot be stopped after", {"then": Then.STOP}, {"market": SPOT}, "use terminate, and launch"),
    ("its program cannot be paused", {}, {"online": False}, "Systems Manager does not list"),
    ("reboot under a run", {"quiesce": Quiesce.REBOOT}, {"busy": True}, "digits-1a2b3c4d trains on it"),
    ("stop under a run", {"quiesce": Quiesce.STOP}, {"busy": True}, "trains on it"),
    ("terminate under a run", {"then": Then.TERMINATE}, {"busy": True}, "trains on it"),
    ("a builder", {}, {"busy": True, "kind": "bake"}, "is the builder of"),
    (
        "one that waits in the pool",
        {},
        {"warm": True},
        "waits in the warm pool for another run, and digits-1",
    ),
    ("a recipe's name", {"name": "gpu"}, {}, "is the name of a recipe"),
]


@pytest.mark.parametrize(
    ("asked", "values", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_host_that_cannot_be_imaged_so_is_refused_with_the_reason(
    asked: dict[str, Any], values: dict[str, Any], said: str
) -> None:
    assert said in refused(SnapshotRequest(instance=HOST, **asked), host(**values))


ADMITTED = [
    ("a run is paused, whatever its market", {}, {"busy": True, "market": SPOT}, "pause"),
    ("a reboot needs no pause", {"quiesce": Quiesce.REBOOT}, {"online": False}, "none"),
    ("stopped first", {"quiesce": Quiesce.STOP}, {}, "stop"),
    ("already stopped", {}, {"state": "stopped", "online": False}, "none"),
    ("already stopped, asked to stop", {"quiesce": Quiesce.STOP}, {"state": "stopped"}, "none"),
]


@pytest.mark.parametrize(
    ("asked", "values", "rest"), [row[1:] for row in ADMITTED], ids=[row[0] for row in ADMITTED]
)
def test_a_host_comes_to_rest_as_asked_if_it_runs(
    asked: dict[str, Any], values: dict[str, Any], rest: str
) -> None:
    assert admitted(SnapshotRequest(instance=HOST, **asked), host(**values)).rest == rest


FAMILIES = [
    ("the name asked for", {"name": "tuned"}, {}, "tuned"),
    ("the job's", {}, {}, "digits"),
    (
        "the family of its parent snapshot",
        {},
        {"kind": "dev-host", "family": "gpu", "parent": an_image(kind="snapshot", family="tuned")},
        "tuned",
    ),
    ("its own, of a baked image", {}, {"kind": "dev-host", "family": "gpu"}, HOST),
    (
        "its own, of an image that is gone",
        {},
        {"kind": None, "family": None, "run": None, "parent": None},
        HOST,
    ),
]


@pytest.mark.parametrize(
    ("asked", "values", "family"), [row[1:] for row in FAMILIES], ids=[row[0] for row in FAMILIES]
)
def test_a_snapshot_has_a_family(asked: dict[str, Any], values: dict[str, Any], family: str) -> None:
    assert admitted(SnapshotRequest(instance=HOST, **asked), host(**values)).family == family


def test_its_tags_say_where_it_comes_from() -> None:
    made = admitted(SnapshotRequest(instance=HOST), host())
    assert imaging.tags(made, yard="trainyard", run="snap-1", name="n") == {
        "Name": "n",
        "trainyard:yard": "trainyard",
        "trainyard:run": "digits-1a2b3c4d",
        "trainyard:execution": "snap-1",
        "trainyard:kind": "snapshot",
        "trainyard:family": "digits",
        "trainyard:parent": AMI,
        "trainyard:host": HOST,
        "trainyard:type": "g6.xlarge",
        "trainyard:step": "120",
        "trainyard:driver": "595.71.05",
        "trainyard:cuda": "12.5",
        "trainyard:tensorflow": "2.21.0",
    }


def test_of_a_host_without_a_run_the_execution_is_the_run() -> None:
    made = admitted(
        SnapshotRequest(instance=HOST), host(run=None, kind=None, family=None, step=None, parent=None)
    )
    said = imaging.tags(made, yard="trainyard", run="snap-1", name="n")
    assert said["trainyard:run"] == "snap-1"
    assert "trainyard:step" not in said
    assert "trainyard:driver" not in said


@pytest.mark.parametrize("family", ["digits", "a" * 40])
def test_its_name_is_one_that_ec2_takes_and_another_for_every_execution(family: str) -> None:
    names = {imaging.image_name(family, HOST, run) for run in ("r" * 80, "r" * 79, "s")}
    assert len(names) == 3
    assert all(
        3 <= len(name) <= 128 and name.startswith("a" * 20 if len(family) > 20 else "digits")
        for name in names
    )


REFUSAL = Conclusion(outcome=Outcome.REFUSED, error="SnapshotRefused", reason="no")


def test_the_summary_says_which_host_became_which_image() -> None:
    imaging = admitted(SnapshotRequest(instance=HOST), host())
    ended = ended_run("snap-1", 12.5, kind="snapshot", image="ami-1", imaging=imaging)
    said = snapshot.summarise(ended, image="ami-1")
    assert said["kind"] == "imaged"
    assert (said["image"], said["instance"], said["family"]) == ("ami-1", HOST, "digits")
    assert (said["parent"], said["step"], said["host_run"], said["seconds"]) == (
        AMI,
        120,
        "digits-1a2b3c4d",
        12.5,
    )


def test_the_summary_of_one_that_was_never_written_down_says_why() -> None:
    said = snapshot.summarise(ended_run("snap-1", how=REFUSAL), image=None)
    assert (said["kind"], said["error"], said["reason"], said["image"]) == (
        "refused",
        "SnapshotRefused",
        "no",
        None,
    )


def test_what_could_not_be_undone_is_named() -> None:
    wrong = outcome.undo_error("snap-1", Trouble(error="AccessDenied", reason="ec2:StartInstances"))
    assert type(wrong).__name__ == "AccessDenied"
    assert "ec2:StartInstances" in wrong.reason
    assert "trainyard:execution=snap-1" in wrong.reason


def test_an_image_that_is_no_longer_there_gives_nothing_on() -> None:
    assert imaging.parent_tags(None) == {}
    assert imaging.parent_tags(Image(AMI, "", "available", "", "", {"trainyard:cuda": "12.5"})) == {
        "trainyard:cuda": "12.5"
    }


def test_a_dev_host_becomes_an_image_when_its_owner_or_patrol_has_asked_for_it() -> None:
    asked = SnapshotRequest(instance=HOST, quiesce=Quiesce.STOP, then=Then.TERMINATE)
    alices = host(kind="dev-host", family=None, dev="mine", owner="alice")
    assert "alice's dev host mine" in refused(asked, alices)
    assert "trainyard dev down mine --keep image" in refused(asked, alices)
    made = admitted(asked, host(kind="dev-host", family=None, dev="mine", owner="alice", wanted=True))
    tags = imaging.tags(made, yard="trainyard", run="snap-1", name="n")
    assert (made.family, tags["trainyard:dev"], tags["trainyard:submitter"]) == ("dev-mine", "mine", "alice")


def test_an_image_of_any_other_host_is_nobodys() -> None:
    made = admitted(SnapshotRequest(instance=HOST), host(owner="alice"))
    assert "trainyard:submitter" not in imaging.tags(made, yard="trainyard", run="snap-1", name="n")
