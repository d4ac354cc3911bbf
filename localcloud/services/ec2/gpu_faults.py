"""Faults of GPUs, as words of `nvidia-smi` by field. The sound values are of an NVIDIA L4 at work."""

from __future__ import annotations

SOUND = {
    "utilization.gpu": "97",
    "memory.used": "20480",
    "temperature.gpu": "61",
    "power.draw": "70.12",
    "clocks.sm": "2040",
    "clocks.max.sm": "2040",
    "clocks_event_reasons.active": "0x0000000000000000",
    "pcie.link.gen.current": "4",
    "pcie.link.gen.max": "4",
    "pcie.link.width.current": "16",
    "pcie.link.width.max": "16",
    "ecc.errors.uncorrected.volatile.total": "0",
    "remapped_rows.pending": "No",
    "remapped_rows.failure": "No",
}
KINDS = {
    "none": {},
    "ecc": {"ecc.errors.uncorrected.volatile.total": "2"},
    "remap-pending": {"remapped_rows.pending": "Yes"},
    "remap-failed": {"remapped_rows.failure": "Yes"},
    "thermal": {
        "clocks_event_reasons.active": "0x0000000000000048",
        "clocks.sm": "918",
        "temperature.gpu": "92",
    },
    "power-brake": {"clocks_event_reasons.active": "0x0000000000000088", "clocks.sm": "1020"},
    "link": {"pcie.link.gen.current": "4", "pcie.link.width.current": "4"},
}


def state(kind: str, gpu: int, count: int) -> list[dict[str, str]]:
    """Return the words of all GPUs of a host. One of the GPUs has the fault."""
    return [{**SOUND, **(KINDS[kind] if number == gpu else {})} for number in range(count)]
