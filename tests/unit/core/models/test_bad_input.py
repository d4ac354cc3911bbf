"""Every unusable name, origin and request about a model has its own sentence. The sentences about request.json are in
tests/unit/workflows/test_bad_predictions.py."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lambdas.core.models import canary, origin, registry
from trainyard.core.model import condition, model_names, saved_model
from trainyard.core.model.errors import ModelRefused
from trainyard.protocol.ledger.models import ModelRow, ModelRows, Pending, VersionRow, VersionState
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.protocol.requests import Act, ModelRequest

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
FOLDER = "s3://bucket/data/x/"
GOOD = {"saved_model.pb": 1000, "variables/variables.index": 10}
PENDING = Pending(version=2, by="ada", at=NOW, until=NOW.replace(month=12), request="r9", why="set-default")


def version(number: int, state: VersionState, **more: Any) -> VersionRow:
    known: dict[str, Any] = {"by": "ada", "at": NOW, "request": f"r{number}", "origin": FOLDER}
    return VersionRow(number=number, label=f"v{number}", state=state, **known, **more)


ROWS = ModelRows(
    row=ModelRow(
        name="digits",
        owner="ada",
        created=NOW,
        request="r0",
        next=4,
        aliases={"default": 1},
        approval=1,
        pending={"default": PENDING},
    ),
    versions=(
        version(1, VersionState.READY),
        version(2, VersionState.READY),
        version(3, VersionState.REFUSED, reason="row 0 differs"),
    ),
)
FAILED = RunRow(
    run="digits-1",
    kind="train",
    state="Conclude",
    attempt=1,
    created=NOW,
    execution_arn="arn",
    outcome=Outcome.FAILED,
    ended=NOW,
)


def asked(act: Act, **given: Any) -> ModelRequest:
    return ModelRequest(request="r", act=act, model="digits", **given)


def canary_of(word: str, percent: int = 5) -> object:
    return canary.start(asked(Act.CANARY, version=word, percent=percent, minutes=5), ROWS, "ada", NOW)


def files(**sizes: int) -> None:
    saved_model.check_files(FOLDER, {name.replace("_dot_", "."): size for name, size in sizes.items()})


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "a capital": (lambda: model_names.check("model", "Digits"), 'model: "Digits" is not 1 to 40 lower-case letters'),
    "41 letters": (lambda: model_names.check("model", "a" * 41), f'model: "{"a" * 41}" is not 1 to 40'),
    "two dots": (lambda: model_names.check("model", ".."), 'model: ".." is not'),
    "a number as an alias": (lambda: model_names.check_alias("3"), "alias: 3 is a number, which would be mistaken"),
    "a taken label": (lambda: registry.choose_label(asked(Act.VERSION, version="v1"), ROWS), "the label v1 of digits"),
    "no saved_model.pb": (lambda: files(readme_dot_txt=1), "has no saved_model.pb: it has readme.txt"),
    "a checkpoint": (lambda: files(ckpt_dot_index=1), "ckpt.index is a checkpoint, which has weights and no model"),
    "a Keras file": (lambda: files(model_dot_keras=1), "model.keras is a Keras file; load it with"),
    "HDF5": (lambda: files(model_dot_h5=1), "model.h5 is an HDF5 file of Keras"),
    "a frozen graph": (lambda: files(graph_dot_pb=1), "graph.pb is a frozen graph of TensorFlow 1"),
    "no signatures": (
        lambda: origin.read_record(FOLDER, b'{"tensorflow": "2.21.0", "signatures": {}}'),
        "has no signatures, so requests have no named inputs; export it with signatures",
    ),
    "a path with two dots": (lambda: saved_model.check_files(FOLDER, {**GOOD, "a/../b": 1}), "or .. part in its path"),
    "an origin with two dots": (lambda: origin.parse("s3://bucket/data/../x", "bucket"), "has an empty, . or .. part"),
    "over 5 GB": (lambda: saved_model.check_files(FOLDER, {**GOOD, "v": 6_000_000_000}), "has 6.0 GB; a version has"),
    "the model of a failed run": (lambda: origin.check_run(FAILED, "digits-1"), "ended as failed, so its model"),
    "a canary of 0": (lambda: canary_of("v2", 0), "percent: found 0; a canary gets 1 to 100 percent"),
    "a canary of 101": (lambda: canary_of("v2", 101), "percent: found 101; a canary gets 1 to 100 percent"),
    "a canary of itself": (lambda: canary_of("v1"), "version 1 (v1) is the default of digits; name another version"),
    "a refused canary": (lambda: canary_of("v3"), "version 3 (v3) of digits is refused: row 0 differs"),
    "retiring a version with an alias": (
        lambda: registry.retire(asked(Act.RETIRE, version="v1"), ROWS, "ada"),
        "version 1 (v1) of digits answers as default; move the alias to another version first",
    ),
    "approving one's own request": (
        lambda: registry.approve(asked(Act.APPROVE, alias="default"), ROWS, "ada", NOW),
        "ada requested that default of digits names version 2, and another user must",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("action", "words"), CASES.values(), ids=list(CASES))
def test_each_has_a_sentence(action: Callable[[], object], words: str) -> None:
    assert words in sentence(action)


def test_no_two_have_the_same_sentence() -> None:
    sentences = [sentence(action) for action, _ in CASES.values()]
    assert len({*sentences}) == len(CASES)


def test_an_unknown_metric_of_a_condition_is_named_with_those_that_exist() -> None:
    unmet = condition.find_unmet("recall > 0", {"accuracy": 0.9})
    assert unmet is not None
    assert "no number recall; it has accuracy" in unmet


def test_another_user_may_approve() -> None:
    rows = replace(ROWS, row=replace(ROWS.row, aliases={"default": 1}))
    assert registry.approve(asked(Act.APPROVE, alias="default"), rows, "bob", NOW).row.aliases == {
        "default": 2
    }


def sentence(action: Callable[[], object]) -> str:
    with pytest.raises(ModelRefused) as refused:
        action()
    assert "Traceback" not in refused.value.reason
    return refused.value.reason
