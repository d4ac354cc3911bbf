"""Without one permission, a run fails with an access error that names it; with all of them, each path works."""

import re
from collections.abc import Iterator
from pathlib import Path as File

import pytest

from tests.e2e.runs import Runs
from tests.permissions import paths
from tests.permissions.grants import Grant, taken_away
from tests.permissions.paths import Path, Seen

pytestmark = pytest.mark.exhaustive
REPORT = File("build/permissions/report.md")
WHOSE = (
    "host role",
    "role of runs",
    "the role of this function lacks",
    "the role of the function trainyard-",
)
"""Names of roles in reasons, if AWS does not name the role."""
AS_SHIPPED: dict[Path, tuple[str, str]] = {
    paths.program_fails: ("FAILED", "told to fail"),
    paths.await_hosts_too_late: ("FAILED", "HostLost"),
    paths.train_too_late: ("FAILED", "HostLost"),
    paths.default_quota: ("FAILED", "quota"),
    paths.install_fails: ("FAILED", "s3:GetObject"),
    paths.own_test_fails: ("FAILED", "tests[0]"),
    paths.bake_missing: ("FAILED", "it does not exist"),
    paths.bake_meanwhile: ("FAILED", "is running, and only one bake"),
    paths.image_fails: ("FAILED", "ImageFailed"),
    paths.launched_from_nowhere: ("FAILED", "instance_types: is missing"),
    paths.snapshot_paused_fails: ("FAILED", "ImageFailed"),
    paths.snapshot_stopped_fails: ("FAILED", "ImageFailed"),
}


@pytest.fixture(autouse=True)
def no_host_remains(runs: Runs) -> Iterator[None]:
    yield
    paths.end_hosts(runs)


@pytest.mark.parametrize(
    "path", dict.fromkeys(path for _, path in paths.PATHS), ids=lambda path: path.__name__
)
def test_the_shipped_roles_allow_the_whole_path(runs: Runs, path: Path) -> None:
    if path in (paths.upload_unheard, paths.recipe_unheard):
        pytest.skip("without a missing permission every upload is heard")
    status, text = AS_SHIPPED.get(path, ("SUCCEEDED", ""))
    seen = path(runs, f"whole-{path.__name__.replace('_', '-')}"[:40])
    assert seen.status == status, f"{seen.cause}\n{seen.log}"
    assert text in seen.cause
    assert path is paths.install_fails or "not authorized" not in f"{seen.cause}\n{seen.log}"


def test_a_run_without_this_permission_fails_and_names_it(runs: Runs, grant: Grant) -> None:
    if reason := paths.unseen(grant):
        pytest.skip(reason)
    name = re.sub(r"[^a-z0-9]+", "-", f"no-{grant}".lower())[:40].strip("-")
    with taken_away(runs.yard, grant) as role:
        seen = paths.path_of(grant)(runs, name)
        left = paths.living(runs, seen.run) if seen.run else []
    note(grant, seen)
    if paths.path_of(grant) in paths.IMAGED:
        check_the_other_texts(grant, seen, "".join(seen.summary["warnings"]))
        return
    if str(grant) == "BakeWorkflowRole-lambda:InvokeFunction-RetireFunction":
        check_the_other_texts(grant, seen, seen.summary["retirement"])
        return
    assert seen.status == "FAILED", f"{seen.cause}\n{seen.log}"
    assert paths.named(grant) in seen.cause, seen.cause
    assert any(who in seen.cause for who in (role, *WHOSE)), seen.cause
    check_the_summary(grant, seen)
    check_what_is_left(grant, seen, left)


def check_the_other_texts(grant: Grant, seen: Seen, text: str) -> None:
    """Check a failure of the image, or remaining old images, which do not fail the run."""
    assert seen.status == "SUCCEEDED", f"{seen.cause}\n{seen.log}"
    assert paths.named(grant) in text, seen.summary


def check_the_summary(grant: Grant, seen: Seen) -> None:
    """Check summary.json, if Conclude could write it."""
    concludes = not re.search(
        r"^(TrainConclude|Bake|Builder|Retire|SnapshotConclude|DevHostConclude)|ConcludeFunction", str(grant)
    )
    if concludes:
        assert paths.named(grant) in seen.summary.get("reason", ""), seen.summary


def check_what_is_left(grant: Grant, seen: Seen, left: list[str]) -> None:
    """Check that no host still runs, or that the reason names it with the command that terminates it.

    Patrol terminates the host of a launch without a conclusion.
    """
    for host in () if str(grant).startswith("DevHostConclude") else left:
        assert "aws ec2 terminate-instances" in seen.cause, f"{host} runs on: {seen.cause}"
        assert host in seen.cause, seen.cause


def note(grant: Grant, seen: Seen) -> None:
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    with REPORT.open("a") as report:
        report.write(
            f"| {grant} | {paths.path_of(grant).__name__} | {seen.status} | {paths.short_cause(seen)} |\n"
        )
