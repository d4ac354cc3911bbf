"""Jobs with buckets outside the yard: Admit's check of each before a launch."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from lambdas.workflows.train import admit
from tests.contract.conftest import REGION, Cloud, answering
from tests.contract.workflow_role import STARTED, STATES, Place
from tests.support.recorded import CONTEXT


class Shelves(Place):
    """A yard that may read one other bucket, and the folder `images/` of a second."""

    def __init__(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(cloud, monkeypatch)
        self.corpus, self.shared, self.private = (
            f"{word}-{self.name}" for word in ("corpus", "shared", "private")
        )
        self.listed: tuple[str, ...] = (self.corpus, f"{self.shared}/images/", f"gone-{self.name}")
        for bucket in (self.corpus, self.shared, self.private):
            self.objects.create_bucket(Bucket=bucket)
            self.objects.put_object(Bucket=bucket, Key="images/train/a.npz", Body=b"a")

    def values(self) -> dict[str, Any]:
        return {**super().values(), "data_buckets": self.listed}

    def admitted(self, uri: str) -> dict[str, Any]:
        run = f"other-{uuid.uuid4().hex[:8]}"
        job = {"name": "other", "program": {"module": "training.programs.digits"}, "data": {"train": uri}}
        event = {"run": run, "execution": f"{STATES}-train:{run}", "started": STARTED, "input": {"job": job}}
        answer: dict[str, Any] = admit.handler(event, CONTEXT)
        return answer


@pytest.fixture
def shelves(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelves]:
    with answering(cloud):
        yield Shelves(cloud, monkeypatch)


def test_a_job_may_read_what_the_yard_reads(shelves: Shelves) -> None:
    for uri in (f"s3://{shelves.corpus}/images/", f"s3://{shelves.shared}/images/train/"):
        assert shelves.admitted(uri)["kind"] == "admitted"


def test_a_bucket_that_is_not_listed_is_refused_with_the_line_that_lists_it(shelves: Shelves) -> None:
    answer = shelves.admitted(f"s3://{shelves.private}/images/train/")
    assert answer["kind"] == "refused"
    setting = ",".join((*shelves.listed, f"{shelves.private}/images/train/"))
    assert f"trainyard --yard yard yard deploy -c data_buckets={setting}" in answer["reason"]


def test_a_folder_beside_the_one_that_is_listed_is_refused(shelves: Shelves) -> None:
    answer = shelves.admitted(f"s3://{shelves.shared}/other/")
    assert "not in one that it reads" in answer["reason"]


def test_what_is_not_there_is_said(shelves: Shelves) -> None:
    nothing = shelves.admitted(f"s3://{shelves.corpus}/nowhere/")
    assert f"there is nothing under s3://{shelves.corpus}/nowhere/" in nothing["reason"]
    gone = shelves.admitted(f"s3://gone-{shelves.name}/x/")
    assert f"the bucket gone-{shelves.name} does not exist" in gone["reason"]


def test_a_bucket_of_another_region_is_refused(shelves: Shelves, cloud: Cloud) -> None:
    assert REGION == "us-east-1"
    far = f"far-{shelves.name}"
    there = {"LocationConstraint": "eu-central-1"}
    shelves.objects.create_bucket(Bucket=far, CreateBucketConfiguration=there)
    shelves.listed = (*shelves.listed, far)
    assert (
        "the bucket is in eu-central-1 and the yard in us-east-1"
        in shelves.admitted(f"s3://{far}/x/")["reason"]
    )
