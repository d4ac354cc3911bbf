"""What the ledger does not write, whoever asks."""

import pytest

from lambdas.aws.ledger import AlreadyWrittenError, answered_row, host_row
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
