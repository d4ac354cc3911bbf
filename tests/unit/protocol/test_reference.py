"""The tables in docs/contracts are those of the protocol's classes."""

import pytest

from tests.unit.protocol import reference


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_a_contract_is_as_its_classes_say(name: str) -> None:
    current = (reference.CONTRACTS / name).read_text()
    assert reference.page(name, current) == current, "make format writes it again"


@pytest.mark.parametrize(("name", "mark"), reference.PARTS)
def test_a_part_is_in_its_page_once(name: str, mark: str) -> None:
    text = (reference.CONTRACTS / name).read_text()
    assert [text.count(f"<!-- {mark}: {each} -->") for each in ("begin", "end")] == [1, 1]
