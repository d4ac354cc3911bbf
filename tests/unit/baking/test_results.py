import json

import pytest

from training.baking import versions
from training.baking.recipe import Recipe, named
from training.baking.results import Outcome, Result, Versions, count_results, failure, table, to_json
from training.baking.tensorflow_report import TensorFlowReport
from training.host.errors import HostTrouble

RESULTS = [
    Result("driver", Outcome.SKIPPED, "no GPU", 0.0),
    Result("matmul", Outcome.PASSED, "right", 3.2),
    Result("disk", Outcome.FAILED, "only 1 GiB is free", 0.1),
    Result("tests[0]", Outcome.FAILED, "exit code 1", 0.2),
]


def test_what_failed_is_said_with_its_reasons() -> None:
    assert failure(RESULTS) == "2 of 4 tests failed: disk: only 1 GiB is free; tests[0]: exit code 1"
    assert failure(RESULTS[:2]) is None


def test_the_outcomes_are_counted() -> None:
    assert count_results(RESULTS) == "1 passed, 2 failed, 1 skipped"
    assert count_results(RESULTS[:2]) == "1 passed, 1 skipped"


def test_the_table_has_a_line_a_test() -> None:
    assert table(RESULTS)[1] == "passed   matmul        3.2 s  right"


def test_tests_json_has_results_and_versions() -> None:
    found = json.loads(
        json.dumps(
            to_json(RESULTS, Versions(driver="none", cuda="none", tensorflow="2.21.0", architecture="x86_64"))
        )
    )
    assert found["tests"][1] == {"name": "matmul", "outcome": "passed", "reason": "right", "seconds": 3.2}
    assert {key: found[key] for key in found if key != "tests"} == {
        "driver": "none",
        "cuda": "none",
        "tensorflow": "2.21.0",
        "architecture": "x86_64",
    }


@pytest.mark.parametrize(
    ("found", "asked", "outcome"),
    [
        ("2.21.0", "", "passed"),
        ("2.21.0", "~=2.21.0", "passed"),
        ("2.21.0", "==2.20.*", "failed"),
        ("12.5.1", ">=12.5", "passed"),
        ("12.2", ">=12.5", "failed"),
        ("2.22.0rc1", ">=2.21", "passed"),
        ("2.21.0", "two", "failed"),
        ("unknown", "==2", "failed"),
    ],
)
def test_versions_against_the_recipe(found: str, asked: str, outcome: str) -> None:
    finding = versions.fits("TensorFlow", found, asked)
    assert finding.outcome == outcome
    assert found in finding.reason


@pytest.mark.parametrize(
    ("message", "handed_over", "outcome"),
    [
        ("SSM Agent version: 3.3.4793.0", True, "passed"),
        ("SSM Agent version: 3.3.2746.0", True, "passed"),
        ("SSM Agent version: 3.3.2299.0", True, "failed"),
        ("3.10.1.0", True, "passed"),
        (None, True, "passed"),
        (None, False, "failed"),
        ("command failed", False, "failed"),
    ],
)
def test_the_systems_manager_agent_must_hand_parameters_over(
    message: str | None, handed_over: bool, outcome: str
) -> None:
    assert versions.ssm_agent(message, handed_over=handed_over).outcome == outcome


def test_a_recipe_without_the_optional_keys() -> None:
    recipe = Recipe.from_json(
        '{"name": "gpu", "hash": "0123456789abcdef", "tensorflow": null, "tests": ["true"]}'
    )
    assert (recipe.tensorflow, recipe.commands, recipe.tests) == ("", (), ("true",))
    assert named("tests", recipe.tests, 0) == 'tests[0] "true"'


@pytest.mark.parametrize(
    "text", ["", "[]", '{"name": "gpu"}', '{"name": "gpu", "hash": "0", "commands": "true"}']
)
def test_what_no_control_plane_writes_is_no_recipe(text: str) -> None:
    with pytest.raises(HostTrouble, match=r"cannot read recipe\.json"):
        Recipe.from_json(text)


def test_what_tensorflow_sees_is_its_last_line() -> None:
    facts = '{"tensorflow": "2.21.0", "cuda": "12.5.1", "gpus": ["/physical_device:GPU:0"]}'
    message = f'2026 I tensorflow/core: {{"noise": 1}}\n{facts}\n'
    assert TensorFlowReport.from_output(message) == TensorFlowReport(
        "2.21.0", "12.5.1", ("/physical_device:GPU:0",)
    )
    with pytest.raises(HostTrouble, match="did not list"):
        TensorFlowReport.from_output("Segmentation fault")
