"""The hosts that serve models: what a new one costs, and the list of those that were started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainyard.client import registry, serving
from trainyard.core.model.hardware import Hardware
from trainyard.core.model.instance_types import catalog
from trainyard.protocol.ledger.models import ServedRow
from trainyard.protocol.serving import ServeHow
from trainyard.values.quantities import dollars, format_roughly

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment

ENDED, STARTING, SERVING, STOPPING = "ended", "starting", "serving", "stopping"


@dataclass(frozen=True)
class ListedHost:
    """A host that serves a version, or served it last."""

    model: str
    version: int
    run: str
    state: str
    """`starting`, `serving`, `stopping` or `ended`."""
    price: float | None
    """Dollars an hour; None before the launch."""
    idle_minutes: float
    by: str


def how_of(row: ServedRow | None, given: Mapping[str, Any]) -> ServeHow:
    """Return how the host is to serve: as at its last start, with these changes."""
    return replace(row.how if row else ServeHow(), **given)


def describe_cost(yard: Deployment, how: ServeHow) -> str:
    """Return a sentence about the most that an hour and the idle time of the host cost."""
    types = how.instance_types or Hardware().instance_types
    listed = read_prices(yard)
    known = [price for each in types if (price := listed.get(each)) is not None]
    idle = format_roughly(60 * how.idle_minutes)
    if len(known) < len(types):
        return f"The price of {', '.join(types)} is unknown; the host ends after {idle} without predictions."
    most = max(known)
    return (
        f"{', '.join(types)}: at most {dollars(most)} an hour on demand, so the {idle} without predictions at its end "
        f"cost at most {dollars(most * how.idle_minutes / 60)}; the run ends after {how.hours:g} h or "
        f"{dollars(how.dollars)}."
    )


def read_prices(yard: Deployment) -> dict[str, float]:
    """Return the on-demand prices by instance type: those that patrol has read, otherwise the catalog's."""
    table = yard.session.resource("dynamodb").Table(yard.table)
    row = table.get_item(Key={"pk": "patrol", "sk": "prices"}).get("Item", {})
    shipped = {name: each.on_demand_price for name, each in catalog().types.items()}
    read = {name: float(price) for name, price in row.get("on_demand", {}).items()}
    return {name: price for name, price in {**shipped, **read}.items() if price is not None}


def list_hosts(yard: Deployment) -> list[ListedHost]:
    """Return the hosts of all models, by model and version."""
    found = []
    for listed in registry.list_models(yard):
        for row in registry.Model(yard, listed.name).rows.served:
            run = yard.row(row.run)
            state = STARTING
            if run and run.ended:
                state = ENDED
            elif run and run.stopping:
                state = STOPPING
            elif run and serving.is_ready(run):
                state = SERVING
            price = run.price if run else None
            found.append(
                ListedHost(listed.name, row.number, row.run, state, price, row.how.idle_minutes, row.by)
            )
    return found
