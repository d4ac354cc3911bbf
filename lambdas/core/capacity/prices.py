"""What hosts and what they leave cost in the yard's region: AWS's price list of it, as patrol has read it, and where it
says nothing the shipped catalogue's prices of another region, in so many words."""

import math
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from trainyard.core.model.instance_types import catalogue
from trainyard.protocol.ledger.yard import PriceList
from trainyard.protocol.storage import GIB_MONTH, Storage
from trainyard.values.lazy import dataclass

GOOD_FOR = timedelta(days=1)
"""AWS changes its list now and then, not within a day."""
AGAIN_AFTER = timedelta(hours=1)
"""Where the list said nothing: it answers ten questions at once and five a second."""
NO_REGIONS = ("IA",)
"""Prefixes of usage types that are a tier's."""
MOST_NAMED = 3
MOST_SHOWN = 300
"""Characters of what AWS said instead: it travels with each plan."""


NOTHING = PriceList(asked=datetime.min.replace(tzinfo=UTC))
"""Patrol has not asked yet."""


@dataclass(frozen=True)
class Prices:
    """Of the yard's `region`. `listed` is None until patrol has asked for the price list."""

    region: str
    listed: PriceList | None = None

    def on_demand(self, name: str) -> float | None:
        """Dollars an hour; None for a type that nobody has priced."""
        return self._listed.on_demand.get(name) or _shipped(name)

    def gib_month(self, storage: Storage) -> float:
        """Dollars a GiB and month."""
        return self._listed.storage.get(storage) or GIB_MONTH[storage]

    def whose(self, types: Collection[str] = (), storage: Iterable[Storage] = ()) -> str:
        """Which region's prices these are, of which day, and where they are another's, why."""
        listed, foreign = self._listed, f"{catalogue().price_region}, {catalogue().price_date}"
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
        """`whose` in brackets, after a blank, where they are not all the region's own; else nothing."""
        if self._listed.read is not None and not self._missing(types, storage):
            return ""
        return f" ({self.whose(types, storage)})"

    @property
    def _listed(self) -> PriceList:
        return self.listed or NOTHING

    def _missing(self, types: Collection[str], storage: Iterable[Storage]) -> str:
        """What the catalogue's prices count for."""
        names = sorted(name for name in set(types) if name not in self._listed.on_demand and _shipped(name))
        more = [f"{len(names) - MOST_NAMED} other types"] if len(names) > MOST_NAMED else []
        kinds = [f"GiB of {kind}" for kind in storage if kind not in self._listed.storage]
        return ", ".join([*names[:MOST_NAMED], *more, *kinds])


def _shipped(name: str) -> float | None:
    kind = catalogue().types.get(name)
    return kind.on_demand_price if kind else None


def is_due(listed: PriceList | None, now: datetime) -> bool:
    """Whether the list should be asked for (again)."""
    return listed is None or now - listed.asked >= (AGAIN_AFTER if listed.trouble else GOOD_FOR)


def dollars(product: Any) -> float | None:
    """The dearest of the dollars that a product of the price list costs on demand: of tiers, what the first GiB costs
    once a free allowance is used. None where it says none, in whatever way: other currencies, nothing, 0."""
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
    """What a bill calls the product's hours or GiB, without the region's prefix (EUC1-); nothing without any."""
    try:
        said = str(product["product"]["attributes"]["usagetype"])
    except (KeyError, TypeError):
        return ""
    prefix, dash, rest = said.partition("-")
    return rest if dash and prefix.isalnum() and prefix.isupper() and prefix not in NO_REGIONS else said
