"""AWS's price list, by its Query API. It costs nothing, answers ten questions at once and five a second, and has no
resource that a role could be narrowed to (docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-pelong.html).

It is served in three regions of the world for all of them, and in one of China, where prices are in yuan; GovCloud has
none, and its credentials are none of the world's (aws/karpenter-provider-aws#5432).
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.clients import client
from lambdas.core.capacity.prices import MOST_SHOWN, dollars, usage_type
from trainyard.core.model.errors import AccessDenied, ServiceUnavailable
from trainyard.core.model.instance_types import all_types
from trainyard.protocol.ledger.yard import PriceList
from trainyard.protocol.storage import Storage

SERVED_IN, CHINAS = "us-east-1", "cn-northwest-1"
PAGE = 100
"""The most that GetProducts answers at a time."""
LINUX = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
STORAGE = {
    Storage.DISK: ("AmazonEC2", "EBS:VolumeUsage.gp3", {"volumeApiName": "gp3", "productFamily": "Storage"}),
    Storage.SNAPSHOT: ("AmazonEC2", "EBS:SnapshotUsage", {"productFamily": "Storage Snapshot"}),
    Storage.BUCKET: ("AmazonS3", "TimedStorage-ByteHrs", {"volumeType": "Standard"}),
    Storage.TABLE: ("AmazonDynamoDB", "TimedStorage-ByteHrs", {}),
    Storage.LOGS: ("AmazonCloudWatch", "TimedStorage-ByteHrs", {}),
}
"""The service, what a bill calls it (docs.aws.amazon.com/ebs/latest/userguide/ebs-billing-usage-reports.html and the
like), and what narrows the question."""


def read(region: str, earlier: PriceList | None, now: datetime) -> PriceList:
    """The region's list as it is now; where AWS does not tell it, the `earlier` one with the reason."""
    try:
        return PriceList(on_demand=_on_demand(region), storage=_storage(region), read=now, asked=now)
    except (ServiceUnavailable, AccessDenied) as error:
        trouble = error.reason
    except ClientError as error:
        trouble = str(error)
    before = earlier or PriceList(asked=now)
    return PriceList(
        on_demand=before.on_demand,
        storage=before.storage,
        read=before.read,
        asked=now,
        trouble=f"the price list was not read: {trouble[:MOST_SHOWN]}",
    )


def _on_demand(region: str) -> dict[str, float]:
    """Of the catalogue's types that have a price there."""
    found = _dearest("AmazonEC2", region, LINUX)
    priced = {name: found.get(f"BoxUsage:{name}") for name in all_types()}
    return {name: price for name, price in priced.items() if price}


def _storage(region: str) -> dict[str, float]:
    priced = {
        kind.value: _dearest(service, region, narrowed).get(usage)
        for kind, (service, usage, narrowed) in STORAGE.items()
    }
    return {kind: price for kind, price in priced.items() if price}


def _dearest(service: str, region: str, narrowed: dict[str, str]) -> dict[str, float]:
    """Dollars by usage type; of products that nothing tells apart, those of the dearest."""
    found: dict[str, float] = {}
    for product in _products(service, region, narrowed):
        usage, price = usage_type(product), dollars(product)
        if price is not None:
            found[usage] = max(price, found.get(usage, 0.0))
    return found


def _products(service: str, region: str, narrowed: dict[str, str]) -> Iterator[Any]:
    """Every product of the service there that its attributes narrow the question to; None for one that is no JSON."""
    terms = {"regionCode": region, **narrowed}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in terms.items()]
    served = CHINAS if region.startswith("cn-") else SERVED_IN
    pages = client("pricing", served).get_paginator("get_products")
    for page in pages.paginate(ServiceCode=service, Filters=filters, PaginationConfig={"PageSize": PAGE}):
        yield from map(_parsed, page["PriceList"])


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
