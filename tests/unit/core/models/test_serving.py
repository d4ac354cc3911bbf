"""The host of a version: the present one, the next start, or a refusal; and its job."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lambdas.core.models import registry, serving
from trainyard.core.jobfile import check
from trainyard.core.model.errors import ModelRefused
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.models import ModelRow, ModelRows, ServedRow, VersionRow, VersionState
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.requests import Act, ModelRequest
from trainyard.protocol.serving import ServeHow, Serves

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOW = ServeHow(instance_types=("g6.xlarge",), idle_minutes=10.0, hours=2.0)


def version(number: int, state: VersionState = VersionState.READY) -> VersionRow:
    return VersionRow(
        number=number,
        label=f"v{number}",
        state=state,
        by="ada",
        at=NOW,
        request="r",
        origin="s3://b/",
        manifest={"trainyard.json": "ab" * 32},
    )


def served(**values: Any) -> ServedRow:
    row = ServedRow(number=2, start=3, run="serve-text-2-0003", by="ada", at=NOW, request="earlier", how=HOW)
    return replace(row, **values)


def rows(*hosts: ServedRow, default: int = 2) -> ModelRows:
    model = ModelRow(name="text", owner="ada", created=NOW, request="r0", aliases={"default": default})
    versions = (version(1), version(2), version(3, VersionState.RETIRED))
    return ModelRows(row=model, versions=versions, served=hosts)


def run(**values: Any) -> RunRow:
    row = RunRow(
        run="serve-text-2-0003", kind="train", state="Train", attempt=1, created=NOW, execution_arn="arn"
    )
    return replace(row, **values)


def asked(how: ServeHow | None = None, word: str = "") -> ModelRequest:
    return ModelRequest(request="now", act=Act.SERVE, model="text", version=word, serve=how)


def choose(request: ModelRequest, known: ModelRows, found: RunRow | None) -> ServedRow:
    version = registry.find_named(request.version, known)
    return serving.choose(request, known, version, found, "bob", NOW)


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("it runs", run()),
        ("its execution has not begun", None),
    ],
)
def test_a_version_has_one_host_at_a_time(sentence: str, found: RunRow | None) -> None:
    known = served()
    assert choose(asked(HOW), rows(known), found) is known, sentence


@pytest.mark.parametrize("over", [{"ended": NOW}, {"cut_short": NOW}])
def test_after_the_end_of_the_run_the_next_start_is_as_the_last_one(over: dict[str, Any]) -> None:
    row = choose(asked(), rows(served()), run(**over))
    assert (row.run, row.start, row.by, row.how) == ("serve-text-2-0004", 4, "bob", HOW)


def test_a_request_may_change_how_the_host_serves() -> None:
    how = ServeHow(instance_types=("m7i.large",))
    assert choose(asked(how), rows(served()), run(ended=NOW)).how == how
    assert choose(asked(how), rows(), None).run == "serve-text-2-0001"


def test_a_repeated_request_starts_nothing_else() -> None:
    known = served(request="now")
    assert choose(asked(HOW), rows(known), run(ended=NOW)) is known


@pytest.mark.parametrize(
    ("request_", "known", "found", "said"),
    [
        (asked(), rows(), None, "no host has served version 2 (v2) of text"),
        (asked(HOW), rows(served()), run(stopping=NOW), "a user has stopped it; try again once it has ended"),
        (asked(HOW, "9"), rows(), None, "text has no alias or version 9; it has default, v1, v2, v3"),
        (asked(HOW, "v3"), rows(), None, "version 3 (v3) of text is retired; name a version that is ready"),
        (asked(replace(HOW, idle_minutes=0.0)), rows(), None, "idle: found 0 minutes"),
        (asked(replace(HOW, idle_minutes=float("nan"))), rows(), None, "idle: found nan minutes"),
    ],
)
def test_a_host_is_refused_with_the_reason(
    request_: ModelRequest, known: ModelRows, found: RunRow | None, said: str
) -> None:
    with pytest.raises(ModelRefused) as refused:
        choose(request_, known, found)
    assert said in refused.value.reason


def test_a_model_without_a_default_needs_a_version() -> None:
    known = rows()
    known = replace(known, row=replace(known.row, aliases={}))
    with pytest.raises(
        ModelRefused, match="has no default version; choose one: trainyard versions set-default"
    ):
        registry.find_named(asked(HOW).version, known)


def test_the_job_names_the_version_and_has_no_fault() -> None:
    given = serving.input_of("text", version(2), served())
    assert given["serves"] == {"model": "text", "number": 2, "submitter": "ada"}
    job = check.check(given["job"], source="a host", bucket="bucket")
    assert isinstance(job, Job), job
    assert job.hardware.instance_types == ("g6.xlarge",)
    assert job.program.args == {
        "model": "text",
        "version": 2,
        "label": "v2",
        "idle-seconds": 600.0,
        "record": "ab" * 32,
    }
    assert timedelta(hours=job.limits.hours) == timedelta(hours=2)


def test_the_name_of_a_job_is_never_too_long() -> None:
    name = "m" * 40
    job = serving.job_of(Serves(model=name, number=2, submitter="ada"), version(2), ServeHow())
    assert isinstance(check.check(job, source="a host", bucket="bucket"), Job)
