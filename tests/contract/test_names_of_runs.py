"""A run belongs to one execution. Other executions of the same name must not change it, in any workflow."""

from collections.abc import Iterator
from types import ModuleType

import pytest

from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.steps.inputs import Admitted
from lambdas.workflows import release
from lambdas.workflows.bake import admit as bake_admit
from lambdas.workflows.bake import conclude as bake_conclude
from lambdas.workflows.dev_host import admit as dev_host_admit
from lambdas.workflows.dev_host import conclude as dev_host_conclude
from lambdas.workflows.snapshot import admit as snapshot_admit
from lambdas.workflows.snapshot import conclude as snapshot_conclude
from lambdas.workflows.snapshot import undo
from lambdas.workflows.train import admit, conclude
from tests.contract.conftest import Cloud, answering
from tests.contract.workflow_role import RUN, STARTED, STATES, YEARS_LATER, Place
from tests.support.recorded import CONTEXT
from trainyard.core.model.errors import Refused

WORKFLOWS: dict[str, tuple[ModuleType, ModuleType]] = {
    "train": (admit, conclude),
    "bake": (bake_admit, bake_conclude),
    "snapshot": (snapshot_admit, snapshot_conclude),
    "dev-host": (dev_host_admit, dev_host_conclude),
}


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
    assert mine.refuse_used_name() is None
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
