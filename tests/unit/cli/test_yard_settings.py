"""Settings of a yard as the command reads them, without the stacks."""

import pytest

from trainyard.cli import yard_settings
from trainyard.cli.options import SettingsError
from trainyard.core.model.yard.data_buckets import DataBucket


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("data_buckets=Corpus", "data_buckets='Corpus': expected buckets or folders of them"),
        ("data_buckets=corpus,a b", "expected buckets or folders of them"),
        ("monthly_dollars=much", "monthly_dollars='much': expected dollars"),
        ("monthly_dollars", "expected KEY=VALUE"),
        ("most_run=5", "did you mean most_runs"),
        ("notify=nobody", "expected a mail address"),
        ("otlp_endpoint=otlp.example.com", "expected an address like https://otlp.example.com"),
        ("otlp_endpoint=https://key@otlp.example.com", "expected an address like"),
        ("nccl_check_seconds=2m", "expected seconds, like 120"),
        ("otlp_headers=api-key=secret", "expected the name of a secret"),
    ],
)
def test_what_no_deployment_would_take_is_said_in_one_line(said: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        yard_settings.needs([said])


def test_other_buckets_are_read_as_the_stacks_read_them() -> None:
    needs = yard_settings.needs(["data_buckets=corpus, shared/images/", "monthly_dollars=12.5"])
    assert needs.data_buckets == (DataBucket("corpus"), DataBucket("shared", "images/"))
    assert needs.monthly_dollars == 12.5


def test_the_deployed_yards_settings_count_where_the_command_names_none() -> None:
    deployed = {"notify": "a@example.com", "monthly_dollars": "5"}
    needs = yard_settings.needs(["monthly_dollars=7"], deployed)
    assert (needs.notify, needs.monthly_dollars) == ("a@example.com", 7.0)
