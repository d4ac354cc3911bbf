"""The pages of models."""

import pytest

from tests.unit.ui import canned
from tests.unit.ui.canned_models import REASON
from tests.unit.ui.site import owner, said


@pytest.fixture
def cloud() -> canned.Cloud:
    return canned.cloud()


def test_the_list_of_models_names_the_version_of_each_alias(cloud: canned.Cloud) -> None:
    shown = said(owner(cloud).get("/models").text)
    assert "digits 2 (v2) champion 1 4 ada" in shown
    assert "line none 0 ada" in shown


def test_the_page_of_a_model_shows_each_version_with_its_origin_and_each_move(cloud: canned.Cloud) -> None:
    text = owner(cloud).get("/models/digits").text
    shown = said(text)
    assert "2 (v2) ready default" in shown
    assert f"3 (v3) refused {REASON}" in shown.replace("&#39;", "'")
    assert f'href="/runs/{canned.TRAINING}"' in text
    assert "accuracy 0.9712" in shown
    assert "default 1 2 set-default ada" in shown


def test_a_model_without_versions_names_the_next_command_and_an_unknown_model_the_known_ones(
    cloud: canned.Cloud,
) -> None:
    client = owner(cloud)
    assert "trainyard versions create v1 --model line --origin @last" in client.get("/models/line").text
    answer = client.get("/models/digit")
    assert answer.status_code == 404
    assert "its models: digits, line" in answer.text
