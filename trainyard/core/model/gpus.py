"""Instance types for GPUs that a job selects by kind, count and memory, from the catalog of this package."""

import re
from collections.abc import Iterable

from trainyard.core.model.instance_types import InstanceType, catalog
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count

MOST_TYPES = 10
"""The most instance types of one job (hardware.instance_types)."""
SIZES_PER_GPU = 2
"""The number of listed sizes for each kind of GPU, the cheapest first. Larger sizes have the same GPUs at a higher
price."""
MEMORY_GB = {
    "k80": 12,
    "t4": 16,
    "t4g": 16,
    "v100": 16,
    "a10g": 24,
    "l4": 24,
    "rtx-pro-4500": 32,
    "a100": 40,
    "l40s": 48,
    "h100": 80,
    "rtx-pro-server-6000": 96,
    "h200": 141,
    "b200": 180,
    "b300": 288,
}
"""The memory of each kind of GPU. https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html"""
MEMORY_GB_OF_TYPES = {"p3dn.24xlarge": 32, "p4de.24xlarge": 80}
"""Instance types whose GPUs have more memory than the others of their kind."""
ELSEWHERE_GB = {
    "gtx1080ti": 11,
    "2080ti": 11,
    "rtx2080ti": 11,
    "titanv": 12,
    "m60": 8,
    "p4": 8,
    "a2": 16,
    "p100": 16,
    "rtxa4000": 16,
    "a4000": 16,
    "rtx4000": 20,
    "a5000": 24,
    "rtxa5000": 24,
    "rtx5000": 16,
    "rtx6000": 24,
    "titanrtx": 24,
    "3090": 24,
    "rtx3090": 24,
    "4090": 24,
    "rtx4090": 24,
    "5090": 32,
    "rtx5090": 32,
    "a30": 24,
    "a40": 48,
    "a6000": 48,
    "rtxa6000": 48,
    "rtx6000ada": 48,
    "l40": 48,
    "gh200": 96,
    "mi250": 128,
    "mi300x": 192,
}
"""GPUs that no EC2 instance type has, with their memory. A GPU with at least as much memory replaces them."""
NAMES = {
    "a10": "a10g",
    "rtxpro4500": "rtx-pro-4500",
    "rtxpro6000": "rtx-pro-server-6000",
    "rtxproserver6000": "rtx-pro-server-6000",
}
MAKERS = ("nvidia", "tesla", "geforce", "quadro")
TOO_OLD = frozenset({"k80", "v100"})
"""The GPUs of P2 and P3 hosts. The images of a yard do not support them."""


@dataclass(frozen=True)
class Wanted:
    """The wanted GPUs of one host."""

    names: tuple[str, ...] = ()
    """The allowed kinds; empty for any."""
    count: int = 1
    memory_gb: float = 0.0
    vcpus: int = 0


@dataclass(frozen=True)
class Chosen:
    """Instance types, the cheapest first."""

    types: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """The differences from the request."""

    @property
    def first(self) -> str:
        """Describe the cheapest instance type."""
        return _describe(self.types[0])


def choose(wanted: Wanted) -> Chosen:
    """Return the cheapest instance types with such GPUs, or else the nearest ones."""
    kinds, memory, missing = _kinds(wanted)
    fitting = [kind for kind in _usable() if _memory(kind) >= memory and kind.vcpus >= wanted.vcpus]
    exact = [kind for kind in fitting if kind.gpus == wanted.count and (not kinds or kind.gpu in kinds)]
    if exact:
        return Chosen(_cheapest(exact), tuple(missing))
    least = max(memory, min((MEMORY_GB[kind] for kind in kinds), default=0))
    size = f" with {least:g} GB or more" if memory else ""
    count = (
        f"{wanted.count} {' or '.join(wanted.names)}" if wanted.names else format_count(wanted.count, "GPU")
    )
    missing.append(f"no EC2 instance type has {count}{size}")
    fitting = [kind for kind in fitting if _memory(kind) >= least]
    larger = [kind for kind in fitting if kind.gpus > wanted.count]
    more = min((kind.gpus for kind in larger if not kinds or kind.gpu in kinds), default=0)
    for near in (
        [kind for kind in fitting if kind.gpus == wanted.count],
        [kind for kind in larger if kind.gpus == more and (not kinds or kind.gpu in kinds)],
        [kind for kind in larger if kind.gpus == min(each.gpus for each in larger)],
        _most_gpus(kind for kind in fitting if kind.gpu in kinds),
        _most_gpus(fitting),
    ):
        if near:
            return Chosen(_cheapest(near), tuple(missing))
    most = max(_memory(kind) for kind in _usable())
    return Chosen(_cheapest(kind for kind in _usable() if _memory(kind) == most), tuple(missing))


def _most_gpus(kinds: Iterable[InstanceType]) -> list[InstanceType]:
    found = list(kinds)
    return [kind for kind in found if kind.gpus == max(each.gpus for each in found)]


def all_names() -> tuple[str, ...]:
    """Return the names of all GPUs that images of a yard support, in the order of their memory."""
    return tuple(kind.upper() for kind in MEMORY_GB if kind in {each.gpu for each in _usable()})


def canonical(name: str) -> tuple[str, float]:
    """Return the catalog's name of a GPU, and the memory in GB that its name contains: a100-80gb is a100 with 80 GB."""
    words = [word for word in re.split(r"[\s_/-]+", name.lower()) if word not in MAKERS]
    sizes = [re.fullmatch(r"(\d+)(?:gb?|gib)", word) for word in words]
    memory = next((float(size[1]) for size in sizes if size), 0.0)
    forms = re.compile(r"\d+(?:gb?|gib)|sxm\d?|pcie|nvl|mega|hbm3")
    plain = "".join(word for word in words if not forms.fullmatch(word))
    return NAMES.get(plain, plain), memory


def _kinds(wanted: Wanted) -> tuple[frozenset[str], float, list[str]]:
    """Return the allowed kinds of GPU (empty for any), the memory that each needs, and the differences from the
    request."""
    kinds, memory, missing = set(), wanted.memory_gb, []
    for name in wanted.names:
        kind, named_gb = canonical(name)
        if kind in TOO_OLD:
            memory = memory or named_gb or MEMORY_GB[kind]
            missing.append(f"no image of a yard works on hosts with {name}")
        elif kind in MEMORY_GB:
            kinds.add(kind)
            memory = max(memory, named_gb if named_gb > MEMORY_GB[kind] else 0)
        else:
            memory = memory or named_gb or ELSEWHERE_GB.get(kind, 0)
            missing.append(f"no EC2 instance type has the GPU {name}")
    return frozenset(kinds), memory, missing


def _usable() -> Iterable[InstanceType]:
    types = catalog().types.values()
    return (kind for kind in types if kind.gpus and kind.architecture == "x86_64" and kind.gpu not in TOO_OLD)


def _memory(kind: InstanceType) -> float:
    return MEMORY_GB_OF_TYPES.get(kind.name, MEMORY_GB[kind.gpu])


def _price(kind: InstanceType) -> float:
    return kind.on_demand_price or float("inf")


def _cheapest(kinds: Iterable[InstanceType]) -> tuple[str, ...]:
    """Return the cheapest sizes of each kind of GPU, the cheapest of all first."""
    ordered, count = sorted(kinds, key=_price), dict[str, int]()
    taken = []
    for kind in ordered:
        count[kind.gpu] = count.get(kind.gpu, 0) + 1
        if count[kind.gpu] <= SIZES_PER_GPU and _price(kind) <= 4 * _price(ordered[0]):
            taken.append(kind.name)
    return tuple(taken[:MOST_TYPES])


def _describe(name: str) -> str:
    kind = catalog().types[name]
    price = f", ${kind.on_demand_price:g} an hour on demand" if kind.on_demand_price else ""
    return f"{name} ({kind.gpus} {kind.gpu.upper()} of {_memory(kind):g} GB{price})"


def is_known(name: str) -> bool:
    """Return True if the catalog contains the instance type."""
    return name in catalog().types
