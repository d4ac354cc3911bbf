"""Names of runs, and a workflow whose executions a test starts."""

import uuid
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.steps.admission import Admission
from lambdas.steps.entry_point import parse
from lambdas.steps.inputs import AdmitInput, Admitted
from tests.contract.conftest import REGION, Cloud
from trainyard.core.model.errors import JobRefused

STATES = f"arn:aws:states:{REGION}:123456789012:execution:yard"
STARTED, YEARS_LATER = "2026-11-20T12:00:00.000Z", "2028-01-01T12:00:00.000Z"
RUN = "first-come"
NAMES: dict[str, Any] = {
    "yard": "yard",
    "aws_region": REGION,
    "most_dollars_per_run": 500.0,
    "most_hosts": 64,
    "topic_arn": "unused",
    "version_state_machine_arn": "unused",
    "resume_document": "none",
    "image_parameter": "/yard/image",
    "previous_image_parameter": "/yard/image/previous",
    "base_image_parameter": "/base",
    "recipe_key": "images/none.yaml",
    "software_hash": "0" * 16,
}
"""The settings that the functions of a yard read. Every other setting keeps its default."""


class Place:
    """A yard's ledger and bucket with a running job."""

    def __init__(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = f"yard-{uuid.uuid4().hex[:12]}"
        cloud.ledger(self.name)
        self.objects = cloud.client("s3")
        self.objects.create_bucket(Bucket=self.name)
        monkeypatch.setattr(environment, "read", self.settings)
        self.table = boto3.resource("dynamodb").Table(self.name)

    def settings(self, wanted: Any) -> Any:
        names = wanted.fields()
        return wanted(**{name: value for name, value in self.values().items() if name in names})

    def values(self) -> dict[str, Any]:
        return {**NAMES, "table_name": self.name, "bucket_name": self.name}

    def admission(self, **event: str) -> Admission:
        given = parse(AdmitInput, {**event, "input": {}}, of="the test")
        return Admission(Ledger(self.name), given, JobRefused)

    def begins(self, workflow: str) -> None:
        """Start the run."""
        event = {"run": RUN, "execution": f"{STATES}-{workflow}:{RUN}", "started": STARTED}
        host = {"pk": f"run#{RUN}", "sk": "host#i-0123456789abcdef0", "launched": STARTED, "attempt": 1}
        more = {"type": "g6.xlarge", "zone": "us-east-1a", "market": "spot", "price": 1}
        assert self.admission(**event).write(Admitted(reason="no fault found"), {"kind": workflow}) is None
        self.table.put_item(Item={**host, **more})
        for key in ("job.json", "summary.json", "recipe.json"):
            self.objects.put_object(Bucket=self.name, Key=f"runs/{RUN}/{key}", Body=workflow.encode())

    def everything(self) -> tuple[Any, ...]:
        """Return every row and every object."""
        rows = sorted(self.table.scan(ConsistentRead=True)["Items"], key=str)
        listed = self.objects.list_objects_v2(Bucket=self.name).get("Contents", [])
        return rows, [
            (each["Key"], self.objects.get_object(Bucket=self.name, Key=each["Key"])["Body"].read())
            for each in listed
        ]
