"""What the ledger does not write, whoever asks."""

import pytest

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, answered_row, ask_counted, host_row, intent_row
from lambdas.core.run.records import TokenRow
from tests.unit.core.facts import NOON
from tests.unit.handlers.conftest import Place


def test_news_of_a_host_that_the_run_has_not_launched_makes_no_row(place: Place) -> None:
    with pytest.raises(AlreadyWrittenError):
        place.ledger.write(host_row("digits-1", "i-0123456789abcdef0", {"lost": "gone"}))
    assert set(place.ledger.known("digits-1").hosts) == set(place.hosts)


def test_an_answer_to_a_wait_whose_row_is_gone_makes_no_row(place: Place) -> None:
    gone = TokenRow(attempt=2, wait="train", token="t", stored=NOON)
    with pytest.raises(AlreadyWrittenError):
        place.ledger.write(answered_row("digits-1", gone, NOON))
    assert set(place.ledger.known("digits-1").tokens) == {(1, "train")}


def test_of_two_calls_that_see_the_same_asks_one_asks_be_it_another_offer(place: Place) -> None:
    """Two of Launch at the same instant, one for EC2's first offer, one with a gang of the pool for the second."""
    seen = place.ledger.known("digits-1").asks(2)
    place.ledger.write(
        intent_row("digits-1", 2, 0, 0, {"token": "t", "at": NOON}, unless="token"),
        ask_counted("digits-1", 2, seen),
    )
    with pytest.raises(AlreadyWrittenError):
        place.ledger.write(
            intent_row("digits-1", 2, 1, 0, {"token": "u", "at": NOON}, unless="token"),
            ask_counted("digits-1", 2, seen),
        )
    known = place.ledger.known("digits-1")
    assert [(row.offer, row.token) for row in known.intents] == [(0, "t")]
    place.ledger.write(
        intent_row("digits-1", 2, 1, 0, {"token": "u", "at": NOON}, unless="token"),
        ask_counted("digits-1", 2, known.asks(2)),
    )
