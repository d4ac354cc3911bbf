"""The pages of models."""

import pytest

from tests.unit.ui import canned
from tests.unit.ui.canned_models import REASON
from tests.unit.ui.site import owner, post, said, stranger


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
    assert "default 1 2 set-default ada approved by bob" in shown


def test_the_page_of_a_model_compares_the_canary_with_the_default_and_names_moves_that_wait(
    cloud: canned.Cloud,
) -> None:
    shown = said(owner(cloud).get("/models/digits").text)
    assert "The canary gets 5 % of the requests to default" in shown
    assert "Version Requests Failed Median 2 default" in shown
    assert "1 canary" in shown
    assert "The shadow gets 5 %" in shown
    assert "trainyard models approve digits --alias champion" in shown
    assert "No version is tried" in said(owner(cloud).get("/models/line").text)


def test_a_request_is_tried_on_the_page_and_a_refusal_has_its_reason(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    shown = said(post(client, "/models/digits/predict", request="[1]\n[2]").text)
    assert "Version 2 (v2) answered in 3.2 ms, and was loaded for it" in shown
    assert "x: float32, shape (2, 1) (signature serving_default) [0.25] [0.75]" in shown
    assert "the request is empty" in post(client, "/models/digits/predict", request=" ").text
    assert (
        "digits has no version v9" in post(client, "/models/digits/predict", request="[1]", version="v9").text
    )


def test_a_foreign_page_cannot_send_a_request(cloud: canned.Cloud) -> None:
    form = {"request": "[1]"}
    headers = {"origin": "http://elsewhere.example"}
    assert owner(cloud).post("/models/digits/predict", data=form, headers=headers).status_code == 403
    assert stranger(cloud).post("/models/digits/predict", data=form).status_code == 403


def test_a_model_without_versions_names_the_next_command_and_an_unknown_model_the_known_ones(
    cloud: canned.Cloud,
) -> None:
    client = owner(cloud)
    assert "trainyard versions create v1 --model line --origin @last" in client.get("/models/line").text
    answer = client.get("/models/digit")
    assert answer.status_code == 404
    assert "its models: digits, line" in answer.text
