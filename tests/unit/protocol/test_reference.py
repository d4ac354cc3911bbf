"""The tables in docs/contracts match the protocol's classes."""

import inspect
import re

import pytest

from tests.unit.protocol import reference
from trainyard.protocol import keys
from trainyard.protocol.tags import PREFIX, Tag


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_a_contract_is_as_its_classes_say(name: str) -> None:
    current = (reference.CONTRACTS / name).read_text()
    assert reference.page(name, current) == current, "make format writes it again"


@pytest.mark.parametrize(("name", "mark"), reference.PARTS)
def test_a_part_is_in_its_page_once(name: str, mark: str) -> None:
    text = (reference.CONTRACTS / name).read_text()
    assert [text.count(f"<!-- {mark}: {each} -->") for each in ("begin", "end")] == [1, 1]


def test_the_pages_list_every_tag() -> None:
    pages = "".join(
        (reference.CONTRACTS / name).read_text() for name in ("tags.md", "images.md", "patrol.md")
    )
    listed = set(re.findall(rf"`{PREFIX}[\w-]+", pages))
    tags = {value for name, value in vars(Tag).items() if name.isupper()}
    assert {f"`{tag}" for tag in tags if not tag.endswith("-")} - listed == set()
    known = tuple(f"`{tag}" for tag in tags)
    assert [each for each in sorted(listed) if not each.startswith(known)] == []


KEYS = {name: function for name, function in vars(keys).items() if inspect.isfunction(function)}


@pytest.mark.parametrize("name", sorted(set(KEYS) - {"run", "attempts"}))
def test_the_pages_name_every_key_of_the_bucket(name: str) -> None:
    """Pages name a key of the bucket by its last part, such as `checkpoints/` or `order.json`."""
    parameters = list(inspect.signature(KEYS[name]).parameters)
    key = KEYS[name](*("<id>", "<n>")[: len(parameters)])
    last = key.rstrip("/").rpartition("/")[2] + ("/" if key.endswith("/") else "")
    pages = "".join(page.read_text() for page in reference.CONTRACTS.glob("*.md"))
    assert last.replace("<id>", "") in pages
