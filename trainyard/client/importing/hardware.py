"""Instance types for the GPUs that another launcher's file asks for, from the catalog that Trainyard ships."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from trainyard.core.model.instance_types import InstanceType, catalogue

MOST_TYPES = 10
"""Instance types of one job (hardware.instance_types)."""
SIZES_PER_GPU = 2
"""Sizes of each kind of GPU that are listed, the cheapest first: larger ones hold the same GPUs at a higher price."""
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
"""Memory of each kind of GPU. https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html"""
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
"""GPUs that no EC2 instance type has, with their memory: others with at least as much take their place."""
NAMES = {
    "a10": "a10g",
    "rtxpro4500": "rtx-pro-4500",
    "rtxpro6000": "rtx-pro-server-6000",
    "rtxproserver6000": "rtx-pro-server-6000",
}
MAKERS = ("nvidia", "tesla", "geforce", "quadro")
TOO_OLD = frozenset({"k80", "v100"})
"""GPUs of P2 and P3 hosts, on which no image of a yard works."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """GPUs of one host: one of the kinds `names` (any kind if empty), `count` of them, each with `memory_gb`."""

    names: tuple[str, ...] = ()
    count: int = 1
    memory_gb: float = 0.0
    vcpus: int = 0


@dataclass(frozen=True, slots=True)
class Chosen:
    """Instance types, the cheapest first, and what differs from what was asked for."""

    types: tuple[str, ...]
    notes: tuple[str, ...] = ()


def choose(wanted: Wanted) -> Chosen:
    """Return the instance types with such GPUs, or those that come nearest, and say in what these differ."""
    kinds, memory, notes = _kinds(wanted)
    fitting = [kind for kind in _usable() if _memory(kind) >= memory and kind.vcpus >= wanted.vcpus]
    exact = [kind for kind in fitting if kind.gpus == wanted.count and (not kinds or kind.gpu in kinds)]
    if exact:
        return Chosen(_cheapest(exact), tuple(notes))
    asked = f"{wanted.count} {' or '.join(wanted.names) or 'GPUs'}"
    memory = memory or min((MEMORY_GB[kind] for kind in kinds), default=0)
    fitting = [kind for kind in fitting if _memory(kind) >= memory]
    same_count = [kind for kind in fitting if kind.gpus == wanted.count]
    if same_count:
        found = _cheapest(same_count)
        notes.append(
            f"no EC2 instance type has {asked}; {_described(found[0])} is the cheapest with as many GPUs"
        )
        return Chosen(found, tuple(notes))
    larger = [kind for kind in fitting if kind.gpus > wanted.count and (not kinds or kind.gpu in kinds)]
    larger = larger or [kind for kind in fitting if kind.gpus > wanted.count]
    if larger:
        least = min(kind.gpus for kind in larger)
        found = _cheapest(kind for kind in larger if kind.gpus == least)
        notes.append(f"no EC2 instance type has {asked}; {_described(found[0])} comes nearest")
        return Chosen(found, tuple(notes))
    notes.append(
        f"no EC2 instance type has {asked} with at least {memory:g} GB each; write hardware.instance_types"
    )
    return Chosen((), tuple(notes))


def canonical(name: str) -> tuple[str, float]:
    """Return the catalog's name of a GPU and the memory in GB that its name asks for: a100-80gb is a100 and 80."""
    words = [word for word in re.split(r"[\s_/-]+", name.lower()) if word not in MAKERS]
    sizes = [re.fullmatch(r"(\d+)(?:gb?|gib)", word) for word in words]
    memory = next((float(size[1]) for size in sizes if size), 0.0)
    forms = re.compile(r"\d+(?:gb?|gib)|sxm\d?|pcie|nvl|mega|hbm3")
    plain = "".join(word for word in words if not forms.fullmatch(word))
    return NAMES.get(plain, plain), memory


def _kinds(wanted: Wanted) -> tuple[frozenset[str], float, list[str]]:
    """Return the kinds of GPU that may be taken (empty: any), the memory each needs at least, and notes."""
    kinds, memory, notes = set(), wanted.memory_gb, []
    for name in wanted.names:
        kind, named_gb = canonical(name)
        if kind in TOO_OLD:
            memory = memory or named_gb or MEMORY_GB[kind]
            notes.append(f"no image of a yard works on hosts with {name}; newer GPUs take its place")
        elif kind in MEMORY_GB:
            kinds.add(kind)
            memory = max(memory, named_gb if named_gb > MEMORY_GB[kind] else 0)
        else:
            memory = memory or named_gb or ELSEWHERE_GB.get(kind, 0)
            size = f" with at least {memory:g} GB" if memory else ""
            notes.append(f"no EC2 instance type has the GPU {name}; GPUs{size} take its place")
    return frozenset(kinds), memory, notes


def _usable() -> Iterable[InstanceType]:
    types = catalogue().types.values()
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


def _described(name: str) -> str:
    kind = catalogue().types[name]
    price = f", ${kind.on_demand_price:g} an hour on demand" if kind.on_demand_price else ""
    return f"{name} ({kind.gpus} {kind.gpu.upper()} with {_memory(kind):g} GB each{price})"


def known(name: str) -> bool:
    """Return True for an instance type of the catalog."""
    return name in catalogue().types
