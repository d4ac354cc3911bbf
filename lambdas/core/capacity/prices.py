"""Prices in the yard's region: AWS's price list, as patrol read it, and otherwise the shipped catalogue's prices of
another region, with a note."""

import math
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from trainyard.core.model.instance_types import catalog
from trainyard.protocol.ledger.yard import PriceList
from trainyard.protocol.storage import GIB_MONTH, Storage
from trainyard.values.lazy import dataclass

VALID_FOR = timedelta(days=1)
"""How long a price list is used. AWS changes it rarely."""
RETRY_INTERVAL = timedelta(hours=1)
"""The pause after a failed request. AWS answers ten price requests at once and five a second."""
NO_REGIONS = ("IA",)
"""Prefixes of usage types that name a tier instead of a region."""
MOST_NAMED = 3
MOST_SHOWN = 300
"""Characters of AWS's answer in a note, which is part of each plan."""


NOTHING = PriceList(requested=datetime.min.replace(tzinfo=UTC))
"""The price list before patrol's first request."""


@dataclass(frozen=True)
class Prices:
    """The prices of the yard's `region`."""

    region: str
    listed: PriceList | None = None
    """None before patrol's first request."""

    def on_demand(self, name: str) -> float | None:
        """Return the dollars an hour; None for a type without a price."""
        return self._listed.on_demand.get(name) or _read_shipped(name)

    def gib_month(self, storage: Storage) -> float:
        """Return the dollars for a GiB and month."""
        return self._listed.storage.get(storage) or GIB_MONTH[storage]

    def describe_source(self, types: Collection[str] = (), storage: Iterable[Storage] = ()) -> str:
        """Return the region and day of these prices, and the reason if the region is another."""
        listed, foreign = self._listed, f"{catalog().price_region}, {catalog().price_date}"
        if listed.read is None:
            why = listed.trouble or f"patrol has not read the price list of {self.region} yet"
            return f"prices of {foreign}: {why}"
        own = f"prices of {self.region}, {listed.read:%Y-%m-%d}"
        if listed.trouble:
            own = f"{own} (not since: {listed.trouble})"
        missing = self._missing(types, storage)
        if not missing:
            return own
        return f"{own}; of {foreign}, for {missing}: the price list of {self.region} has none in dollars"

    def caveat(self, types: Collection[str] = (), storage: Iterable[Storage] = ()) -> str:
        """Return `whose` in brackets after a space, unless all prices are the region's own."""
        if self._listed.read is not None and not self._missing(types, storage):
            return ""
        return f" ({self.describe_source(types, storage)})"

    @property
    def _listed(self) -> PriceList:
        return self.listed or NOTHING

    def _missing(self, types: Collection[str], storage: Iterable[Storage]) -> str:
        """Return what the catalogue's prices are used for."""
        names = sorted(
            name for name in set(types) if name not in self._listed.on_demand and _read_shipped(name)
        )
        more = [f"{len(names) - MOST_NAMED} other types"] if len(names) > MOST_NAMED else []
        kinds = [f"GiB of {kind}" for kind in storage if kind not in self._listed.storage]
        return ", ".join([*names[:MOST_NAMED], *more, *kinds])


def _read_shipped(name: str) -> float | None:
    kind = catalog().types.get(name)
    return kind.on_demand_price if kind else None


def is_due(listed: PriceList | None, now: datetime) -> bool:
    """Return True if a request for the price list is due."""
    return listed is None or now - listed.requested >= (RETRY_INTERVAL if listed.trouble else VALID_FOR)


def dollars(product: Any) -> float | None:
    """Return the highest on-demand price of a product in dollars: of tiers, the first GiB beyond a free allowance.
    Return None for other currencies, 0, and products without a price."""
    try:
        terms = product["terms"]["OnDemand"].values()
        found = [
            float(dimension["pricePerUnit"]["USD"])
            for term in terms
            for dimension in term["priceDimensions"].values()
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return max((each for each in found if math.isfinite(each) and each > 0), default=None)


def usage_type(product: Any) -> str:
    """Return the usage type of a product without its region's prefix (EUC1-); "" if it has none."""
    try:
        said = str(product["product"]["attributes"]["usagetype"])
    except (KeyError, TypeError):
        return ""
    prefix, dash, rest = said.partition("-")
    return rest if dash and prefix.isalnum() and prefix.isupper() and prefix not in NO_REGIONS else said
