"""The client, patrol and the local cloud use the same prices of storage."""

from lambdas.aws.dynamodb import rows
from localcloud.base.settings import Settings
from trainyard.client.admin import teardown
from trainyard.protocol.storage import GIB_MONTH


def test_what_a_yard_leaves_is_priced_by_the_row_that_patrol_keeps() -> None:
    """The client has a copy, because it may not import the functions."""
    assert tuple(teardown.PRICES.items()) == tuple(zip(("pk", "sk"), rows.PRICES, strict=True))
    assert {kind.value: dollars for kind, dollars in GIB_MONTH.items()} == teardown.US_EAST_1
    assert set(teardown.BILLED_AS) == set(teardown.Kind) - {teardown.Kind.PARAMETER}


def test_the_local_cloud_asks_of_a_gib_what_the_functions_take_it_to_cost() -> None:
    words = {"gp3": "disk", "snapshot": "snapshot", "s3": "bucket", "dynamodb": "table", "logs": "logs"}
    asked = {words[name]: dollars for name, dollars in Settings.load().storage_prices.items()}
    assert asked == {kind.value: dollars for kind, dollars in GIB_MONTH.items()}
