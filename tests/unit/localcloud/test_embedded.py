"""The embedded metric format: valid and invalid log lines."""

from typing import Any

import pytest

from localcloud.services.cloudwatch.embedded import Datum, data_of, faults

NOW = 1_800_000_000.0
METRIC = {"Name": "HostsLaunched", "Unit": "Count"}


def document(**changes: Any) -> dict[str, Any]:
    """Return a line in Powertools' format. `changes` apply to the root, with `directive` and `metadata` inside it."""
    directive = {"Namespace": "Yard", "Dimensions": [["service"]], "Metrics": [METRIC]}
    directive |= changes.pop("directive", {})
    metadata = {"Timestamp": int(NOW * 1000), "CloudWatchMetrics": [directive]} | changes.pop("metadata", {})
    return {"_aws": metadata, "service": "trainyard", "HostsLaunched": [2.0], "run": "digits-1", **changes}


def test_each_value_is_one_of_its_metric_in_each_set_of_dimensions() -> None:
    told = document(
        directive={"Dimensions": [["service"], ["service", "kind"], []]}, kind="spot", HostsLaunched=[1, 2.5]
    )
    assert not list(faults(told, NOW))
    assert list(data_of(told)) == [
        Datum("Yard", "HostsLaunched", value, "Count", dimensions, NOW)
        for dimensions in ({"service": "trainyard"}, {"service": "trainyard", "kind": "spot"}, {})
        for value in (1.0, 2.5)
    ]


def test_a_value_may_stand_alone_and_a_unit_be_left_out() -> None:
    told = document(directive={"Metrics": [{"Name": "HostsLaunched"}]}, HostsLaunched=3)
    assert not list(faults(told, NOW))
    (datum,) = data_of(told)
    assert (datum.value, datum.unit) == (3.0, "None")


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        pytest.param([1], "_aws", id="no object"),
        pytest.param({"service": "x"}, "_aws", id="no metadata"),
        pytest.param(document(metadata={"Timestamp": "now"}), "Timestamp", id="a time in words"),
        pytest.param(document(metadata={"Timestamp": int(NOW)}), "14 days", id="seconds for milliseconds"),
        pytest.param(
            document(metadata={"Timestamp": int(NOW + 7300) * 1000}), "2 hours", id="a time to come"
        ),
        pytest.param(document(metadata={"CloudWatchMetrics": {}}), "CloudWatchMetrics", id="no list"),
        pytest.param(document(metadata={"CloudWatchMetrics": ["x"]}), "directive", id="no directive"),
        pytest.param(document(directive={"Namespace": ""}), "Namespace", id="no namespace"),
        pytest.param(document(directive={"Dimensions": []}), "Dimensions", id="no set of dimensions"),
        pytest.param(document(directive={"Dimensions": ["service"]}), "set of dimensions", id="no sets"),
        pytest.param(
            document(directive={"Dimensions": [[str(n) for n in range(31)]]}), "30", id="31 dimensions"
        ),
        pytest.param(document(directive={"Dimensions": [["zone"]]}), "zone", id="a dimension without value"),
        pytest.param(document(service=7), "service", id="a dimension that is not a text"),
        pytest.param(document(service=" "), "service", id="a dimension of blanks"),
        pytest.param(document(directive={"Metrics": []}), "Metrics", id="no metric"),
        pytest.param(document(directive={"Metrics": [METRIC] * 101}), "100", id="101 metrics"),
        pytest.param(document(directive={"Metrics": [{"Unit": "Count"}]}), "Name", id="no name"),
        pytest.param(document(directive={"Metrics": [METRIC | {"Unit": "Hosts"}]}), "unit", id="no unit"),
        pytest.param(
            document(directive={"Metrics": [METRIC | {"StorageResolution": 5}]}), "1 nor 60", id="resolution"
        ),
        pytest.param(document(HostsLaunched="2"), "number", id="a number in words"),
        pytest.param(document(HostsLaunched=True), "number", id="a truth for a number"),
        pytest.param(document(HostsLaunched=[]), "100", id="no value"),
        pytest.param(document(HostsLaunched=[1.0] * 101), "100", id="101 values"),
    ],
)
def test_a_line_against_the_specification_is_no_metric(told: Any, wrong: str) -> None:
    assert wrong in "; ".join(faults(told, NOW))
