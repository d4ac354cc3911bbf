"""Settings of the local cloud: what AWS decides outside its API, such as prices, capacity, quotas and latencies.

The defaults are in settings.yaml; a user's file overrides single keys.
"""

from __future__ import annotations

import fnmatch
import math
import re
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from random import Random
from statistics import NormalDist
from typing import Any, TypeVar

import yaml

from localcloud.base.rates import Rate

ARCHITECTURES = ("x86_64", "arm64")
SHIPPED = Path(__file__).with_name("settings.yaml")
Z95 = NormalDist().inv_cdf(0.95)
"""Standard deviations from the median to the 95th percentile."""


class SettingsError(Exception):
    """A settings file has an unknown key or an invalid value. The message names the key and the allowed values."""


@dataclass(frozen=True)
class Spread:
    """A duration in seconds with a log-normal distribution, given by its median and 95th percentile."""

    median: float
    p95: float

    def draw(self, chance: Random) -> float:
        if self.median == self.p95:
            return self.median
        return chance.lognormvariate(math.log(self.median), math.log(self.p95 / self.median) / Z95)


@dataclass(frozen=True)
class Latencies:
    """Durations of AWS's operations, in seconds.

    `agent` is None if the agent never registers. `function_retry` is the time until an event is tried again on
    which a function failed; the third try follows after twice this time. `transaction` is the time for which a
    transaction locks its items.
    """

    boot: float
    agent: Spread | None
    stop: float
    terminate: float
    image: float
    terminated_visible: float
    function_retry: float
    transaction: float


@dataclass(frozen=True)
class Metrics:
    """Namespace and interval of the GPU metrics of hosts, and interval of EC2's own metrics."""

    namespace: str
    interval_seconds: float
    instance_seconds: float


@dataclass(frozen=True)
class Interruption:
    """Timing of a spot interruption."""

    warning_seconds: float


@dataclass(frozen=True)
class SessionTimes:
    """Length of Session Manager's minute, the unit of session timeouts."""

    minute_seconds: float


@dataclass(frozen=True)
class Spot:
    """Spot prices."""

    share_of_on_demand: dict[str, float]
    prices: dict[str, float]


@dataclass(frozen=True)
class Quota:
    """One Service Quotas entry. `applied` is None if the account has AWS's default."""

    name: str
    market: str
    families: list[str]
    default: float
    applied: float | None = None

    @property
    def value(self) -> float:
        """Return the value that launches are checked against."""
        return self.default if self.applied is None else self.applied

    def covers(self, instance_type: str, market: str) -> bool:
        """Return True if instances of this type and market count against the quota."""
        family = instance_type.split(".")[0]
        letters = re.match(r"[a-z]+", family)
        return market == self.market and (
            family in self.families or (letters is not None and letters.group() in self.families)
        )


@dataclass(frozen=True)
class BaseImage:
    """An image that exists from the start."""

    name: str
    root_device: str
    root_gib: int
    architecture: str = "x86_64"
    description: str = ""
    parameter: str | None = None
    wheels: str | None = None
    files: dict[str, str] = field(default_factory=dict)


PARTS = {
    "latencies": Latencies,
    "metrics": Metrics,
    "interruption": Interruption,
    "sessions": SessionTimes,
    "spot": Spot,
}
ENTRIES = {"quotas": Quota, "images": BaseImage}
"""Classes of the entries in mappings whose keys a file may choose."""


@dataclass(frozen=True)
class Settings:
    """All settings. They never change while the cloud runs."""

    account: str
    region: str
    zones: dict[str, str]
    capacity: dict[str, int]
    latencies: Latencies
    metrics: Metrics
    interruption: Interruption
    sessions: SessionTimes
    spot: Spot
    price_factors: dict[str, float]
    storage_prices: dict[str, float]
    prices: dict[str, float]
    quotas: dict[str, Quota]
    function_concurrency: int
    rates: dict[str, Rate]
    resource_rates: dict[str, Rate]
    images: dict[str, BaseImage] = field(default_factory=dict)

    @classmethod
    def load(cls, overlay: Path | None = None) -> Settings:
        """Return the shipped settings, overridden by `overlay`."""
        document = yaml.safe_load(SHIPPED.read_text())
        if overlay is not None:
            document = merge(document, _read(overlay))
        return cls.parse(document)

    @classmethod
    def parse(cls, document: dict[str, Any]) -> Settings:
        """Return the settings in a parsed file. Raise SettingsError that names every unknown key."""
        built = dict(_check(cls, document, ""))
        if isinstance(built["latencies"], dict) and "agent" in built["latencies"]:
            built["latencies"] = built["latencies"] | {"agent": _spread_or_never(built["latencies"]["agent"])}
        for name, kind in PARTS.items():
            built[name] = kind(**_check(kind, built[name], f"{name}."))
        for name, kind in ENTRIES.items():
            named = built[name].items()
            built[name] = {key: kind(**_check(kind, entry, f"{name}.{key}.")) for key, entry in named}
        for name in ("rates", "resource_rates"):
            built[name] = _rates(built[name] or {}, name)
        for image, entry in built["images"].items():
            _check_files(entry.files, f"images.{image}.files")
            if entry.architecture not in ARCHITECTURES:
                raise SettingsError(
                    f"images.{image}.architecture: {entry.architecture!r}; allowed: {', '.join(ARCHITECTURES)}"
                )
        for name in ("interval_seconds", "instance_seconds"):
            if not 0.1 <= float(getattr(built["metrics"], name)) <= 3600:
                raise SettingsError(f"metrics.{name}: a number from 0.1 to 3600")
        for pool in built["capacity"]:
            if pool.count("/") != 2:
                raise SettingsError(
                    f'capacity.{pool}: a pool is written "type/zone/market", "*" stands for anything'
                )
        return cls(**built)

    def on_demand_price(self, instance_type: str) -> float | None:
        """Return the dollars an hour in the settings' region, or None for a type without a price."""
        price = self.prices.get(instance_type)
        return None if price is None else self.here(price)

    def here(self, dollars: float) -> float:
        """Convert a price of us-east-1 to the settings' region."""
        return round(dollars * self.price_factors.get(self.region, 1.0), 10)

    def spot_price(self, instance_type: str, zone: str) -> float | None:
        """Return the spot price in dollars an hour, or None for a type without a price."""
        for key in (f"{instance_type}/{zone}", instance_type):
            if key in self.spot.prices:
                return self.spot.prices[key]
        on_demand = self.on_demand_price(instance_type)
        return (
            None if on_demand is None else round(on_demand * self.spot.share_of_on_demand.get(zone, 0.4), 6)
        )

    def quota_of(self, instance_type: str, market: str) -> tuple[str, Quota] | None:
        """Return code and quota that a launch of this type and market counts against."""
        return next(((code, q) for code, q in self.quotas.items() if q.covers(instance_type, market)), None)


def _spread_or_never(given: Any) -> Spread | None:
    if given == "never":
        return None
    quantiles = {"median": given, "p95": given} if isinstance(given, int | float) else given
    if isinstance(quantiles, dict) and quantiles.keys() == {"median", "p95"}:
        median, p95 = quantiles["median"], quantiles["p95"]
        numbers = isinstance(median, int | float) and isinstance(p95, int | float)
        if numbers and (0 <= median == p95 < math.inf or 0 < median < p95 < math.inf):
            return Spread(float(median), float(p95))
    raise SettingsError(
        f"latencies.agent: {given!r}; allowed: seconds from 0, {{median: 30, p95: 240}} where they differ, or never"
    )


def _rates(given: Any, where: str) -> dict[str, Rate]:
    if not isinstance(given, dict):
        raise SettingsError(f"{where}: expected a mapping of actions to [burst, refill], found {given!r}")
    rates = {}
    for action, rate in given.items():
        if not re.fullmatch(r"[a-z0-9-]+:[A-Za-z0-9*]+", str(action)):
            raise SettingsError(f'{where}.{action}: an action is written "service:Action", as in a policy')
        try:
            rates[action] = Rate.parse(rate)
        except ValueError as wrong:
            raise SettingsError(f"{where}.{action}: {wrong}") from wrong
    return rates


Value = TypeVar("Value")


def value_for_pool(pools: dict[str, Value], instance_type: str, zone: str, market: str) -> Value | None:
    """Return the value of the most specific key that matches this capacity pool, or None."""
    pool = (instance_type, zone, market)
    fitting = [key for key in pools if all(map(fnmatch.fnmatchcase, pool, key.split("/")))]
    return pools[min(fitting, key=_vagueness)] if fitting else None


def _vagueness(key: str) -> tuple[int, list[bool], int]:
    """Return a sort key: fewer wildcards first, then keys that name the type, then the zone, then longer keys."""
    patterns = [any(mark in part for mark in "*?[") for part in key.split("/")]
    return sum(patterns), patterns, -len(key)


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return `below` overridden by `above`. Mappings are merged, other values replaced."""
    merged = dict(below)
    for key, value in above.items():
        under = below.get(key)
        merged[key] = value
        if isinstance(under, dict) and isinstance(value, dict):
            merged[key] = merge(under, value)
    return merged


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: cannot be read as a settings file: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SettingsError(f"{path}: a settings file is a mapping; see localcloud/base/settings.yaml")
    return document


def _check_files(files: Any, where: str) -> None:
    if not isinstance(files, dict):
        raise SettingsError(f"{where}: expected a mapping of paths to contents, found {files!r}")
    for path, content in files.items():
        if not str(path).startswith("/") or ".." in str(path).split("/"):
            raise SettingsError(f"{where}.{path}: a path on the image's disk begins with / and has no ..")
        if not isinstance(content, str):
            raise SettingsError(f"{where}.{path}: the content of a file is text, found {content!r}")


def _check(kind: type, values: Any, where: str) -> dict[str, Any]:
    """Return `values` if its keys are the fields of `kind`, else raise SettingsError."""
    allowed = {f.name for f in fields(kind)}
    if not isinstance(values, dict):
        raise SettingsError(
            f"{where.rstrip('.')}: expected a mapping with {', '.join(sorted(allowed))}, found {values!r}"
        )
    unknown = sorted(set(values) - allowed)
    if unknown:
        raise SettingsError(
            f"{where}{unknown[0]}: not a setting of the local cloud; allowed: {', '.join(sorted(allowed))}"
        )
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    if missing := sorted(needed - set(values)):
        raise SettingsError(f"{where.rstrip('.') or 'the settings'}: {', '.join(missing)} missing")
    return values
