"""Decisions about models: each case is a request with the rows of a model, and its result or its refusal."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lambdas.core.models import registry
from trainyard.core.model import model_names
from trainyard.core.model.errors import ModelRefused
from trainyard.protocol.ledger.models import ModelRow, ModelRows, MoveRow, VersionRow, VersionState
from trainyard.protocol.requests import Act, ModelRequest

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
REQUEST = "model-digits-20261129T120000-abcdef"


def version(number: int, label: str, state: VersionState = VersionState.READY, **more: Any) -> VersionRow:
    return VersionRow(
        number=number,
        label=label,
        state=state,
        by="ada",
        at=NOW,
        request=f"r{number}",
        origin="s3://b/",
        **more,
    )


def moved(old: int | None, new: int, alias: str = "default") -> MoveRow:
    return MoveRow(
        alias=alias, old=old, new=new, by="ada", at=NOW, request=f"{alias}{new}", why="set-default"
    )


ROWS = ModelRows(
    row=ModelRow(
        name="digits",
        owner="ada",
        created=NOW,
        request="r0",
        next=6,
        aliases={"default": 2, "champion": 1, "lost": 2},
        version=9,
    ),
    versions=(
        version(1, "v1"),
        version(2, "v2"),
        version(3, "v3", VersionState.REFUSED, reason="row 0 differs"),
        version(4, "v4", VersionState.RETIRED),
        version(5, "v5", VersionState.MAKING),
    ),
    moves=(moved(None, 1), moved(1, 2), moved(None, 1, "champion"), moved(4, 2, "lost")),
)


def asked(act: Act, word: str = "", alias: str = "") -> ModelRequest:
    return ModelRequest(request=REQUEST, act=act, model="digits", version=word, alias=alias)


@pytest.mark.parametrize(
    ("word", "alias", "old", "new"),
    [("v1", "", 2, 1), ("1", "default", 2, 1), ("v2", "champion", 1, 2), ("v2", "new", None, 2)],
)
def test_an_alias_moves_in_one_write_that_names_both_versions(
    word: str, alias: str, old: int | None, new: int
) -> None:
    made = registry.move(asked(Act.MOVE, word, alias), ROWS, "ada", NOW)
    assert isinstance(made, registry.Move)
    assert (made.move.old, made.move.new, made.row.aliases[alias or "default"]) == (old, new, new)
    assert made.row.version == ROWS.row.version + 1


@pytest.mark.parametrize(
    ("word", "alias", "words"),
    [
        ("v2", "", "default of digits names version 2 (v2) already"),
        ("v3", "", "version 3 (v3) of digits is refused: row 0 differs; name a version that is ready"),
        ("v4", "", "is retired"),
        ("v5", "", "is making"),
        ("v9", "", "no version v9; it has 1 (v1), 2 (v2), 3 (v3), 4 (v4), 5 (v5)"),
        ("99", "", "no version 99"),
    ],
)
def test_an_alias_names_only_a_version_that_is_ready(word: str, alias: str, words: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        registry.move(asked(Act.MOVE, word, alias), ROWS, "ada", NOW)
    assert words in refused.value.reason


def test_a_rollback_reverses_the_last_move_and_can_be_reversed() -> None:
    made = registry.roll_back(asked(Act.ROLLBACK), ROWS, "ada", NOW)
    assert (made.move.old, made.move.new, made.move.why) == (2, 1, "rollback")
    after = ModelRows(row=made.row, versions=ROWS.versions, moves=(*ROWS.moves, made.move))
    assert registry.roll_back(asked(Act.ROLLBACK), after, "ada", NOW).move.new == 2


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        ("champion", "champion of digits has named no version other than 1"),
        ("champoin", 'no alias champoin; it has champion, default, lost; did you mean "champion"?'),
        ("lost", "named version 4 before, which is retired"),
    ],
)
def test_a_rollback_without_an_earlier_version_is_refused(alias: str, words: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        registry.roll_back(asked(Act.ROLLBACK, alias=alias), ROWS, "ada", NOW)
    assert words in refused.value.reason


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("v2", "answers as default, lost; move the alias to another version first"),
        ("v5", "is being made"),
        ("v7", "no version v7"),
    ],
)
def test_a_version_that_answers_is_not_retired(word: str, words: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        registry.retire(asked(Act.RETIRE, word), ROWS, "ada")
    assert words in refused.value.reason


def test_a_retired_version_keeps_the_first_user_who_retired_it() -> None:
    free = ModelRows(
        row=ModelRow(name="digits", owner="ada", created=NOW, request="r"), versions=ROWS.versions
    )
    made = registry.retire(asked(Act.RETIRE, "v1"), free, "bob")
    assert (made.state, made.retired_by) == (VersionState.RETIRED, "bob")


@pytest.mark.parametrize("label", ["v6", "v3"])
def test_a_label_is_free_if_no_version_or_only_a_refused_one_has_it(label: str) -> None:
    assert registry.choose_label(asked(Act.VERSION, label), ROWS) == label


def test_a_version_without_a_label_gets_one_from_its_number() -> None:
    assert registry.choose_label(asked(Act.VERSION), ROWS) == "v6"


@pytest.mark.parametrize("label", ["v1", "v4", "v5"])
def test_a_label_belongs_to_one_version(label: str) -> None:
    with pytest.raises(ModelRefused, match=f"the label {label} of digits is taken by version"):
        registry.choose_label(asked(Act.VERSION, label), ROWS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Digits", '"Digits" is not 1 to 40 lower-case letters'),
        ("a" * 41, "is not 1 to 40 lower-case letters"),
        ("..", '".." is not'),
        ("", '"" is not'),
        ("a/b", '"a/b" is not'),
        ("3", "alias: 3 is a number, which would be mistaken for a version; begin with a letter, as in v3"),
    ],
)
def test_a_name_that_is_malformed_is_refused(name: str, words: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        model_names.check("alias", name)
    assert words in refused.value.reason


def test_only_the_owner_and_operators_move_aliases() -> None:
    registry.check_owner(ROWS, "ada", operator=False)
    registry.check_owner(ROWS, "eve", operator=True)
    with pytest.raises(ModelRefused, match="digits belongs to ada; only ada or an operator"):
        registry.check_owner(ROWS, "eve", operator=False)


def test_a_model_is_created_once_and_a_repeated_request_finds_its_row() -> None:
    made = registry.create(asked(Act.CREATE), None, "ada", NOW)
    assert (made.owner, made.next, made.aliases) == ("ada", 1, {})
    assert registry.create(asked(Act.CREATE), ModelRows(row=made), "ada", NOW) == made
    with pytest.raises(ModelRefused, match="the model digits exists; ada created it on 2026-11-29"):
        registry.create(asked(Act.CREATE), ROWS, "ada", NOW)


@pytest.mark.parametrize(("by", "moves"), [("ada", True), ("bob", False)])
def test_the_alias_of_a_new_version_moves_only_for_the_owner(by: str, moves: bool) -> None:
    ready = VersionRow(
        number=6,
        label="v6",
        state=VersionState.READY,
        by=by,
        at=NOW,
        request="r6",
        origin="",
        alias="candidate",
    )
    made = registry.publish(ROWS, ready, NOW)
    assert (made is not None) is moves
    assert made is None or made.row.aliases["candidate"] == 6


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    reason = registry.unknown_model("digit", ["digits", "line"]).reason
    assert 'it has digits, line; did you mean "digits"?; create it with' in reason
    assert "it has no model yet" in registry.unknown_model("digit", []).reason
