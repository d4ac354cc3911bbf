"""A run belongs to one execution: what another one of its name may do to it, in any workflow, is nothing."""

import uuid
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.steps.admission import Admission
from lambdas.steps.entry_point import parse
from lambdas.steps.inputs import AdmitInput, Admitted
from lambdas.workflows import release
from lambdas.workflows.bake import admit as bake_admit
from lambdas.workflows.bake import conclude as bake_conclude
from lambdas.workflows.launch import admit as launch_admit
from lambdas.workflows.launch import conclude as launch_conclude
from lambdas.workflows.snapshot import admit as snapshot_admit
from lambdas.workflows.snapshot import conclude as snapshot_conclude
from lambdas.workflows.snapshot import undo
from lambdas.workflows.train import admit, conclude
from tests.contract.conftest import REGION, Cloud, answering
from tests.support.recorded import CONTEXT
from trainyard.core.model.errors import JobRefused, Refused

STATES = f"arn:aws:states:{REGION}:123456789012:execution:yard"
STARTED, YEARS_LATER = "2026-11-20T12:00:00.000Z", "2028-01-01T12:00:00.000Z"
RUN = "first-come"
NAMES: dict[str, Any] = {
    "yard": "yard",
    "monthly_dollars": 0.0,
    "aws_region": "us-east-1",
    "most_dollars_per_run": 500.0,
    "most_runs": 20,
    "most_hosts": 64,
    "most_hold_hours": 24.0,
    "most_pool_hosts": 8,
    "when_full": "wait",
    "data_buckets": (),
    "subnet_ids": (),
    "topic_arn": "nobody is told",
    "resume_document": "none",
    "image_parameter": "/yard/image",
    "previous_image_parameter": "/yard/image/previous",
    "base_image_parameter": "/base",
    "recipe_key": "images/none.yaml",
    "software_hash": "0" * 16,
}
WORKFLOWS: dict[str, tuple[ModuleType, ModuleType]] = {
    "train": (admit, conclude),
    "bake": (bake_admit, bake_conclude),
    "snapshot": (snapshot_admit, snapshot_conclude),
    "launch": (launch_admit, launch_conclude),
}


class Place:
    """A yard's ledger and bucket, with a run that goes on in them."""

    def __init__(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = f"yard-{uuid.uuid4().hex[:12]}"
        cloud.ledger(self.name)
        self.objects = cloud.client("s3")
        self.objects.create_bucket(Bucket=self.name)
        monkeypatch.setattr(environment, "read", self.settings)
        self.table = boto3.resource("dynamodb").Table(self.name)

    def settings(self, wanted: Any) -> Any:
        values = {**NAMES, "table_name": self.name, "bucket_name": self.name}
        return wanted(**{field: values[field] for field in wanted.fields()})

    def admission(self, **event: str) -> Admission:
        given = parse(AdmitInput, {**event, "input": {}}, of="the test")
        return Admission(Ledger(self.name), given, JobRefused)

    def begins(self, workflow: str) -> None:
        """The run, under way."""
        event = {"run": RUN, "execution": f"{STATES}-{workflow}:{RUN}", "started": STARTED}
        host = {"pk": f"run#{RUN}", "sk": "host#i-0123456789abcdef0", "launched": STARTED, "attempt": 1}
        more = {"type": "g6.xlarge", "zone": "us-east-1a", "market": "spot", "price": 1}
        assert self.admission(**event).write(Admitted(reason="no fault found"), {"kind": workflow}) is None
        self.table.put_item(Item={**host, **more})
        for key in ("job.json", "summary.json", "recipe.json"):
            self.objects.put_object(Bucket=self.name, Key=f"runs/{RUN}/{key}", Body=workflow.encode())

    def everything(self) -> tuple[Any, ...]:
        """Every row and every object."""
        rows = sorted(self.table.scan(ConsistentRead=True)["Items"], key=str)
        listed = self.objects.list_objects_v2(Bucket=self.name).get("Contents", [])
        return rows, [
            (each["Key"], self.objects.get_object(Bucket=self.name, Key=each["Key"])["Body"].read())
            for each in listed
        ]


@pytest.fixture
def place(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with answering(cloud):
        yield Place(cloud, monkeypatch)


CASES = [
    pytest.param(
        theirs, mine, started, id=f"{mine} after {theirs}{'' if started == STARTED else ', years later'}"
    )
    for theirs in WORKFLOWS
    for mine in WORKFLOWS
    for started in ([STARTED] if theirs != mine else [YEARS_LATER])
]


@pytest.mark.parametrize(("theirs", "mine", "started"), CASES)
def test_an_execution_with_the_name_of_anothers_run_is_refused_and_touches_nothing(
    place: Place, theirs: str, mine: str, started: str
) -> None:
    place.begins(theirs)
    before = place.everything()
    admits, concludes = WORKFLOWS[mine]
    event = {"run": RUN, "execution": f"{STATES}-{mine}:{RUN}", "started": started}
    answer = admits.handler({**event, "input": {"job_key": "jobs/a.yaml"}}, CONTEXT)
    assert answer["kind"] == "refused"
    assert f"The run {RUN} belongs to another execution ({STATES}-{theirs}:{RUN})" in answer["reason"]
    concluded = concludes.handler({**event, "outcome": answer}, CONTEXT)
    assert (concluded["outcome"], concluded["reason"]) == ("refused", answer["reason"])
    assert place.everything() == before


@pytest.mark.parametrize(("theirs", "mine"), [(a, b) for a in WORKFLOWS for b in WORKFLOWS if a != b])
def test_the_rules_that_clear_up_after_it_touch_nothing_either(place: Place, theirs: str, mine: str) -> None:
    place.begins(theirs)
    before = place.everything()
    event = {"run": RUN, "execution": f"{STATES}-{mine}:{RUN}"}
    _, concludes = WORKFLOWS[mine]
    assert release.handler({**event, "scope": "run"}, CONTEXT)["hosts"] == []
    assert undo.handler(event, CONTEXT)["reason"] == "no host was touched"
    aborted = {"kind": "error", "error": "Aborted", "reason": "The execution ended as ABORTED"}
    concludes.handler({**event, "cut_short": True, "outcome": aborted}, CONTEXT)
    assert place.everything() == before


def test_an_execution_that_finds_its_own_run_goes_on(place: Place) -> None:
    place.begins("train")
    event = {"run": RUN, "execution": f"{STATES}-train:{RUN}", "started": STARTED}
    mine = place.admission(**event)
    assert mine.taken() is None
    assert mine.write(Admitted(reason="no fault found"), {"kind": "train"}) is None


def test_of_two_that_begin_at_once_the_second_learns_it_when_it_writes(place: Place) -> None:
    place.begins("train")
    event = {"run": RUN, "execution": f"{STATES}-bake:{RUN}", "started": STARTED}
    refused = place.admission(**event).write(Admitted(reason="no fault found"), {"kind": "bake"})
    assert refused is not None
    assert "belongs to another execution" in refused.reason


def test_a_bake_that_learns_it_late_gives_the_lock_back(place: Place) -> None:
    place.begins("train")
    mine = f"{STATES}-bake:{RUN}"
    lock = {"pk": "bake", "sk": "lock", "run": RUN, "execution_arn": mine, "until": YEARS_LATER}
    place.table.put_item(Item=lock)
    refused = {"kind": Refused.kind, "error": "RecipeRefused", "reason": "the name is taken"}
    bake_conclude.handler({"run": RUN, "execution": mine, "started": STARTED, "outcome": refused}, CONTEXT)
    assert Ledger(place.name).bake_lock() is None
