"""Decisions about canaries: each row of a table is a canary with its figures, and the judgement."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lambdas.core.models import canary, registry
from lambdas.core.models.canary import Continue, Promote, RollBack, Warn
from lambdas.core.models.registry import Move, Wait
from trainyard.core.model import model_names
from trainyard.core.model.errors import ModelRefused
from trainyard.core.model.prediction_metrics import Figures
from trainyard.protocol.export import Conversion
from trainyard.protocol.ledger.models import Canary, ModelRow, ModelRows, Pending, VersionRow, VersionState
from trainyard.protocol.requests import Act, ModelRequest

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
OPEN = Canary(
    version=4, percent=5, started=NOW, until=NOW + timedelta(minutes=60), by="ada", request="r-canary"
)
USUAL = Figures(predictions=2000, errors=20, milliseconds=10.0)
GOOD = Figures(predictions=100, errors=1, milliseconds=11.0)
NONE = Figures()


def version(number: int, state: VersionState = VersionState.READY, how: Conversion = Conversion.WHOLE) -> Any:
    return VersionRow(
        number=number,
        label=f"v{number}",
        state=state,
        by="ada",
        at=NOW,
        request=f"r{number}",
        origin="s3://b/",
        lite=how,
    )


ROWS = ModelRows(
    row=ModelRow(
        name="digits", owner="ada", created=NOW, request="r0", next=8, aliases={"default": 3}, version=9
    ),
    versions=(
        version(3),
        version(4),
        version(5, VersionState.REFUSED),
        version(6, how=Conversion.NONE),
    ),
)
TRIED = replace(ROWS, row=replace(ROWS.row, canary=OPEN))


@pytest.mark.parametrize(
    ("minutes", "own", "others", "kind", "why"),
    [
        (5, GOOD, USUAL, Continue, ""),
        (59, GOOD, USUAL, Continue, ""),
        (61, GOOD, USUAL, Continue, ""),  # the last minutes are not complete in CloudWatch
        (62, GOOD, USUAL, Promote, "version 4 failed 1 of 100 requests (1.0%), and version 3 failed 20 of 2,000"),
        (5, replace(GOOD, errors=2.1), USUAL, RollBack, "version 4 failed 2 of 100 requests (2.1%)"),
        (5, replace(GOOD, errors=2), USUAL, Continue, ""),  # 1 point is not more than 1 point
        (90, replace(GOOD, errors=50), USUAL, RollBack, "failed 50 of 100 requests (50.0%)"),
        (5, Figures(predictions=4, errors=4), USUAL, Continue, ""),  # too few to judge
        (5, Figures(predictions=5, errors=1), USUAL, RollBack, "failed 1 of 5 requests (20.0%)"),
        (5, replace(GOOD, milliseconds=21.0), USUAL, RollBack, "takes 21 ms (median), and version 3 10 ms"),
        (5, replace(GOOD, milliseconds=20.0), USUAL, Continue, ""),
        (5, Figures(predictions=19, milliseconds=90.0), USUAL, Continue, ""),
        (5, replace(GOOD, milliseconds=6.0), replace(USUAL, milliseconds=2.0), Continue, ""),  # 4 ms are noise
        (5, replace(GOOD, milliseconds=None), USUAL, Continue, ""),
        (14, NONE, USUAL, Continue, ""),
        (15, NONE, USUAL, Warn, "no predictions of version 4"),
        (15, GOOD, NONE, Warn, "no predictions of version 3"),
        (600, NONE, NONE, Warn, "no predictions of version 4"),  # unknown never counts as healthy
        (62, Figures(predictions=19, milliseconds=10.0), USUAL, Warn, "only 19 predictions"),
    ],
)  # fmt: skip
def test_a_canary_is_judged_by_its_figures(
    minutes: int, own: Figures, others: Figures, kind: type, why: str
) -> None:
    found = canary.judge(OPEN, 3, own, others, NOW + timedelta(minutes=minutes))
    assert type(found) is kind, found
    assert why in getattr(found, "why", "")


def asked(act: Act = Act.CANARY, word: str = "4", **given: Any) -> ModelRequest:
    return ModelRequest(
        request="r", act=act, model="digits", version=word, **{"percent": 5, "minutes": 60, **given}
    )


def test_a_start_and_an_end_are_moves_with_their_user_and_reason() -> None:
    started = canary.start(asked(), ROWS, "ada", NOW)
    assert started.row.canary == replace(OPEN, request="r")
    assert (started.move.alias, started.move.old, started.move.new) == ("canary", 3, 4)
    assert started.move.why == "5 % for 60 minutes"
    ended = canary.stop(asked(Act.END_CANARY), TRIED, "bob", NOW)
    assert ended.row.canary is None
    assert (ended.move.alias, ended.move.old, ended.move.new, ended.move.by) == ("canary", 4, 3, "bob")
    both = canary.start(asked(shadow=True), TRIED, "ada", NOW)
    assert both.row.canary == OPEN
    assert both.row.shadow


@pytest.mark.parametrize(
    ("request_", "rows", "why"),
    [
        (asked(percent=0), ROWS, "percent: found 0; a canary gets 1 to 100 percent"),
        (asked(percent=101), ROWS, "percent: found 101"),
        (asked(minutes=0), ROWS, "minutes: found 0; a canary lasts 1 to 10080 minutes"),
        (asked(minutes=10_081), ROWS, "minutes: found 10081"),
        (asked(word="3"), ROWS, "version 3 (v3) is the default of digits"),
        (asked(word="5"), ROWS, "version 5 (v5) of digits is refused"),
        (asked(word="6"), ROWS, "needs a host with TensorFlow, and a canary runs in the function"),
        (asked(word="9"), ROWS, "digits has no version 9"),
        (asked(), replace(ROWS, row=replace(ROWS.row, aliases={})), "has no default version to compare with"),
        (
            asked(),
            TRIED,
            "has a canary: version 4 until 2026-11-29 13:00 UTC; end it first: trainyard models",
        ),
    ],
)
def test_a_canary_that_cannot_start_is_refused(request_: ModelRequest, rows: ModelRows, why: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        canary.start(request_, rows, "ada", NOW)
    assert why in refused.value.reason


def test_an_end_without_a_canary_is_refused() -> None:
    with pytest.raises(ModelRefused, match="digits has no shadow"):
        canary.stop(asked(Act.END_CANARY, shadow=True), TRIED, "ada", NOW)


def test_a_canary_is_promoted_or_waits_for_approval() -> None:
    done = canary.promote(TRIED, NOW, "canary: all well")
    assert isinstance(done, Move)
    assert (done.row.aliases, done.row.canary, done.move.why) == ({"default": 4}, None, "canary: all well")
    needs = replace(TRIED, row=replace(TRIED.row, approval=1))
    waits = canary.promote(needs, NOW, "canary: all well")
    assert isinstance(waits, Wait)
    assert (waits.row.aliases, waits.row.canary, waits.pending.version) == ({"default": 3}, None, 4)


def test_a_move_of_default_ends_its_canary() -> None:
    moved = registry.move(asked(Act.MOVE), TRIED, "ada", NOW)
    assert isinstance(moved, Move)
    assert moved.row.canary is None


def test_a_version_in_use_is_not_retired() -> None:
    with pytest.raises(ModelRefused, match="version 4 \\(v4\\) of digits answers as canary"):
        registry.retire(asked(Act.RETIRE), TRIED, "ada")


def test_a_shadow_is_described_by_its_differences() -> None:
    assert canary.describe_shadow(OPEN, Figures(predictions=50, errors=10, disagreed=4)) == (
        "version 4 failed 10 of 50 requests (20.0%), 4 answers differ (10.0%)"
    )
    assert "no figures" in canary.describe_shadow(OPEN, NONE)


NEEDS = replace(ROWS, row=replace(ROWS.row, approval=1))


def waiting(by: str = "ada", version: int = 4) -> ModelRows:
    pending = Pending(
        version=version, by=by, at=NOW, until=NOW + timedelta(days=7), request="r1", why="set-default"
    )
    return replace(NEEDS, row=replace(NEEDS.row, pending={"default": pending}))


def test_a_move_waits_until_another_user_approves_it() -> None:
    waits = registry.move(asked(Act.MOVE), NEEDS, "ada", NOW)
    assert isinstance(waits, Wait)
    assert (waits.row.aliases, waits.pending.by) == ({"default": 3}, "ada")
    assert waits.pending.until == NOW + timedelta(days=7)
    moved = registry.approve(asked(Act.APPROVE), waiting(), "bob", NOW + timedelta(days=6))
    assert (moved.row.aliases, moved.row.pending) == ({"default": 4}, {})
    assert (moved.move.by, moved.move.approved, moved.move.why) == ("ada", "bob", "set-default")


@pytest.mark.parametrize(
    ("rows", "by", "days", "why"),
    [
        (waiting(), "ada", 0, "ada requested that default of digits names version 4, and another user must"),
        (waiting(), "bob", 8, "the request of ada expired on 2026-12-06 12:00 without an approval"),
        (waiting(version=5), "bob", 0, "version 5 of digits is refused now"),
        (NEEDS, "bob", 0, "no move of default of digits waits for approval; moves that wait: none"),
    ],
)
def test_an_approval_that_does_not_count_is_refused(rows: ModelRows, by: str, days: int, why: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        registry.approve(asked(Act.APPROVE), rows, by, NOW + timedelta(days=days))
    assert why in refused.value.reason


@pytest.mark.parametrize("name", ["canary", "shadow", "7", "Best", "a" * 41, "..", ""])
def test_an_alias_with_another_meaning_is_refused(name: str) -> None:
    with pytest.raises(ModelRefused, match=r"^alias: "):
        model_names.check_alias(name)
