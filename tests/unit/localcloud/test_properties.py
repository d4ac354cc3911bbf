"""The table of properties that the local cloud's CloudFormation supports."""

from pathlib import Path

import pytest
import yaml
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

TABLE = Path(__file__).parents[3] / "localcloud/services/cloudformation/properties.yaml"
KNOWN: dict[str, list[str]] = yaml.safe_load(TABLE.read_text())


@pytest.mark.parametrize("kind", KNOWN)
def test_it_has_names_of_awss_own_schema_in_order(kind: str) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    assert set(KNOWN[kind]) <= set(schema["properties"])
    assert KNOWN[kind] == sorted(set(KNOWN[kind]))
