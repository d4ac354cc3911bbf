"""Recipes: valid ones, every fault of bad ones, and the input of a bake's execution."""

from typing import Any

import pytest

from tests.support.recipes import WHOLE, WRONG
from trainyard.core.jobfile import recipe
from trainyard.core.jobfile.recipe import BakeRequest, Builder, Recipe
from trainyard.core.model.instance_types import MarketChoice
from trainyard.protocol.containers import Container
from trainyard.values import serialization
from trainyard.values.fields import keys
from trainyard.values.validation import InputFaults


def faults(document: Any) -> str:
    found = recipe.check(document, source="images/x.yaml")
    assert isinstance(found, InputFaults), found
    return found.reason


def test_a_recipe_is_read_whole() -> None:
    assert recipe.parse(WHOLE, source="images/x.yaml") == Recipe(
        name="torchless",
        base="/aws/service/deeplearning/ami/x86_64/base/latest/ami-id",
        tensorflow="~=2.21.0",
        cuda=">=12.5, <13",
        system_packages=("htop", "libsndfile1=1.2.2-1ubuntu5"),
        python_packages=("pandas~=2.2", "soundfile[numpy] >=0.12"),
        commands=("systemctl disable apport", "echo a\necho b"),
        tests=("python -c 'import pandas'",),
        root_gib=250,
        builder=Builder(instance_types=("g5.xlarge",), market=MarketChoice.ON_DEMAND, hours=1.5),
    )


def test_a_name_is_enough() -> None:
    found = recipe.check({"name": "gpu"}, source="x")
    assert found == Recipe(name="gpu")
    assert isinstance(found, Recipe)
    assert found.root_gib == 100
    assert found.builder.instance_types == ("g4dn.xlarge", "g5.xlarge", "g6.xlarge", "m7i.xlarge")


@pytest.mark.parametrize(("document", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_fault_is_told_with_what_is_allowed(document: Any, said: str) -> None:
    assert said in faults(document)


def test_all_faults_are_told_at_once() -> None:
    reason = faults({"name": "X", "base": "?", "root_gib": "big", "builder": {"hours": 0}, "extra": 1})
    assert "has 5 faults" in reason


INPUTS: list[tuple[str, Any, object]] = [
    ("the yard's own recipe", {}, BakeRequest(recipe_key="images/gpu.yaml")),
    ("one of the bucket", {"recipe_key": "images/a.yml"}, BakeRequest(recipe_key="images/a.yml")),
    (
        "the version that was uploaded",
        {"recipe_key": "images/a.yml", "version_id": "v1", "etag": "e"},
        BakeRequest(recipe_key="images/a.yml", version_id="v1", etag="e"),
    ),
    (
        "one that is given",
        {"recipe": {"name": "x"}, "force": True},
        BakeRequest(recipe={"name": "x"}, force=True),
    ),
    ("forced", {"force": True}, BakeRequest(recipe_key="images/gpu.yaml", force=True)),
    ("back", {"rollback": True}, BakeRequest(recipe_key="images/gpu.yaml", rollback=True)),
    ("not back", {"rollback": False}, BakeRequest(recipe_key="images/gpu.yaml")),
]


@pytest.mark.parametrize(("given", "wanted"), [row[1:] for row in INPUTS], ids=[row[0] for row in INPUTS])
def test_what_an_execution_asks_for(given: Any, wanted: object) -> None:
    assert recipe.read_input(given, usual="images/gpu.yaml") == wanted


WRONG_INPUTS: list[tuple[Any, str]] = [
    ([], "found a list"),
    ({"recipe_key": "jobs/a.yaml"}, "recipe_key: \"jobs/a.yaml\" is not a key under images/"),
    ({"recipe_key": "images/a.yaml", "recipe": {}}, "found both recipe_key and recipe"),
    ({"recipe": "gpu"}, "recipe: found \"gpu\"; a mapping is allowed"),
    ({"rollback": True, "force": True}, "rollback: does not bake, so it cannot be combined with force"),
    ({"force": "yes"}, "force: found \"yes\"; true or false"),
    ({"roll_back": True}, "did you mean \"rollback\"?"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), WRONG_INPUTS, ids=[row[1] for row in WRONG_INPUTS])
def test_an_input_that_means_nothing_is_refused(given: Any, said: str) -> None:
    found = recipe.read_input(given, usual="images/gpu.yaml")
    assert isinstance(found, InputFaults)
    assert said in found.reason


NOON = "2026-11-28T12:00:00.000Z"


def test_the_hash_changes_with_recipe_software_and_base_and_with_nothing_else() -> None:
    plain = Recipe(name="gpu", base="/aws/service/x")
    first = recipe.hash_of(plain, software="s", base="ami-1", base_made=NOON)
    assert first == recipe.hash_of(Recipe(name="gpu"), software="s", base="ami-1", base_made=NOON), (
        "the AMI counts, not its name"
    )
    assert first != recipe.hash_of(plain, software="t", base="ami-1", base_made=NOON)
    assert first != recipe.hash_of(plain, software="s", base="ami-2", base_made=NOON)
    assert first != recipe.hash_of(
        Recipe(name="gpu", commands=("true",)), software="s", base="ami-1", base_made=NOON
    )
    assert first != recipe.hash_of(plain, software="s", base="ami-1", base_made="2026-11-28T12:00:01.000Z"), (
        "the base image carries something else now"
    )
    assert len(first) == 16


def test_the_hash_changes_with_the_digest_of_a_container_image() -> None:
    named = Recipe(name="gpu", containers=("team/train:v1",))
    images = [Container(image="team/train:v1", digest="sha256:" + letter * 64) for letter in "ab"]
    found = [
        recipe.complete_recipe(named, software="s", base="ami-1", base_made=NOON, containers=[each])
        for each in images
    ]
    assert found[0]["hash"] != found[1]["hash"]
    assert found[0]["containers"][0]["digest"] == images[0].digest
    assert serialization.from_json(Container, found[0]["containers"][0]) == images[0]


def test_a_container_image_of_a_recipe_is_checked_like_in_a_job() -> None:
    found = recipe.check({"name": "gpu", "containers": ["team/Train:v1", "a:b:c"]}, source="x")
    assert isinstance(found, InputFaults)
    assert [fault.path for fault in found.faults] == ["containers[0]", "containers[1]"]


def test_recipe_json_has_every_key_the_ami_and_the_hash() -> None:
    found = recipe.complete_recipe(Recipe(name="gpu"), software="s", base="ami-1", base_made=NOON)
    assert set(found) == {*keys(Recipe), "release", "software", "hash"}
    assert found["base"] == "ami-1"
    assert found["builder"]["market"] == "spot_then_on_demand"


READABLE = [
    ("/aws/service/canonical/x", True),
    ("/trainyard/base", True),
    ("/my/base", True),
    ("/other/secret", False),
    ("/aws/reference/secretsmanager/x", False),
]


@pytest.mark.parametrize(("parameter", "allowed"), READABLE)
def test_admit_reads_public_parameters_and_the_yards(parameter: str, allowed: bool) -> None:
    assert recipe.readable(parameter, usual="/my/base", yard="trainyard") is allowed
