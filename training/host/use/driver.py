"""The state of each GPU, as NVIDIA's driver reports it: its use, the reason for a lower clock, its link, its memory.

`nvidia-smi --help-query-gpu` and `--help-query-remapped-rows` explain the fields. A driver that lacks a field refuses
the whole query, so the next one of QUERIES is tried. An unknown value is `[N/A]`, and is left out.
"""

import logging
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from training.host.health import Fault
from trainyard.core.model import host_use
from trainyard.values.quantities import format_count

COMMAND: Final = "nvidia-smi"
ANSWER_SECONDS = 10.0
USE = {
    "utilization.gpu": host_use.GPU,
    "memory.used": host_use.GPU_MEMORY,
    "temperature.gpu": host_use.CELSIUS,
    "power.draw": host_use.WATTS,
    "clocks.sm": host_use.MEGAHERTZ,
}
"""Fields of every driver, with their measures."""
CLOCK, HIGHEST_CLOCK = "clocks.sm", "clocks.max.sm"
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The reasons for a lower clock, as bits. Drivers before 535 have only the second name."""
GENERATION, BEST_GENERATION = "pcie.link.gen.current", "pcie.link.gen.max"
WIDTH, BEST_WIDTH = "pcie.link.width.current", "pcie.link.width.max"
UNCORRECTED = "ecc.errors.uncorrected.volatile.total"
STATE = (HIGHEST_CLOCK, GENERATION, BEST_GENERATION, WIDTH, BEST_WIDTH, UNCORRECTED)
QUERIES = (*((*USE, reasons, *STATE) for reasons in REASONS), tuple(USE))
PENDING, FAILED = "remapped_rows.pending", "remapped_rows.failure"
"""`Yes` if a damaged row of memory waits for a reset to be remapped, and if all spare rows are used."""
READS_A_REMAP = 3
"""Remapped rows are a query of its own, which is made once in this many reads: once a minute."""
YES = ("Yes", "1")
LANE_RATES = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""Gigabytes a second of one lane, by generation of PCI Express."""

logger = logging.getLogger(__name__)

Row = Mapping[str, str]
"""The words of one GPU by field."""


@dataclass(slots=True)
class Driver:
    """Reads all GPUs of this host. A query that fails is not made again, and its values are unknown from then on."""

    faults: tuple[Fault, ...] = ()
    """The faults of the last read."""
    _queries: list[Sequence[str]] = field(default_factory=lambda: list(QUERIES))
    _reads_remaps: bool = True
    _reads: int = 0

    def read(self) -> dict[str, float]:
        """Return the measures of each GPU."""
        rows = self._read_gpus()
        remaps = self._read_remaps() if self._reads_remaps and self._reads % READS_A_REMAP == 0 else []
        self._reads += 1
        self.faults = (*faults_of(rows), *faults_of(remaps))
        return measures_of(rows)

    def _read_gpus(self) -> list[Row]:
        while self._queries:
            try:
                return parse(self._queries[0], _run("--query-gpu", self._queries[0]))
            except (OSError, subprocess.SubprocessError) as error:
                lacks_field = "not a valid field" in str(getattr(error, "stdout", ""))
                self._queries = self._queries[1:] if lacks_field else []
                if not self._queries:
                    logger.warning("the use of the GPUs is not recorded: %s", error)
        return []

    def _read_remaps(self) -> list[Row]:
        try:
            return parse((PENDING, FAILED), _run("--query-remapped-rows", (PENDING, FAILED)))
        except (OSError, subprocess.SubprocessError) as error:
            self._reads_remaps = False
            logger.info("the remapped rows of the GPUs are unknown: %s", error)
            return []


def parse(fields: Sequence[str], text: str) -> list[Row]:
    """Return the words of each GPU by field."""
    lines = (line for line in text.splitlines() if line.strip())
    return [dict(zip(fields, (word.strip() for word in line.split(",")), strict=False)) for line in lines]


def measures_of(rows: Sequence[Row]) -> dict[str, float]:
    """Return the measures of each GPU, by column of its record."""
    found = {}
    for number, row in enumerate(rows):
        for measure, value in _measures(row):
            if value is not None:
                found[host_use.of_gpu(measure, number)] = value
    return found


def faults_of(rows: Sequence[Row]) -> Iterator[Fault]:
    """Yield the faults of the GPUs' memory. Corrected errors do not count."""
    for number, row in enumerate(rows):
        who = f"GPU {number} of this host"
        if errors := int(_number(row, UNCORRECTED) or 0):
            counted = format_count(errors, "uncorrectable memory error")
            yield Fault(f"{who} reports {counted} (ECC)", is_fatal=True, subject=f"{who}: ECC")
        if row.get(FAILED) in YES:
            yield Fault(f"{who} has no spare row for a damaged row of its memory", is_fatal=True)
        elif row.get(PENDING) in YES:
            yield Fault(f"{who} will remap a damaged row of its memory at its next reset", is_fatal=False)


def _measures(row: Row) -> Iterator[tuple[str, float | None]]:
    for name, measure in USE.items():
        yield measure, _number(row, name)
    clock, highest = _number(row, CLOCK), _number(row, HIGHEST_CLOCK)
    yield host_use.CLOCK, 100 * clock / highest if clock is not None and highest else None
    reasons = next((found for name in REASONS if (found := _number(row, name)) is not None), None)
    yield host_use.SLOWED, None if reasons is None else float(int(reasons) & host_use.SLOWDOWNS)
    # the link of an idle GPU rests in a lower generation
    yield host_use.LINK, _link(row) if _number(row, "utilization.gpu") else None


def _link(row: Row) -> float | None:
    """Return the bandwidth of the GPU's link in percent of the best that the GPU and its slot have together."""
    now, best = (
        LANE_RATES.get(int(_number(row, generation) or 0), 0.0) * (_number(row, width) or 0.0)
        for generation, width in ((GENERATION, WIDTH), (BEST_GENERATION, BEST_WIDTH))
    )
    return 100 * now / best if now and best else None


def _number(row: Row, name: str) -> float | None:
    """Return a number, or bits such as `0x0000000000000040`. None if the GPU does not report the field."""
    word = row.get(name, "")
    try:
        return float(int(word, 16)) if word.startswith("0x") else float(word)
    except ValueError:
        return None


def _run(option: str, fields: Sequence[str]) -> str:
    words = [COMMAND, f"{option}={','.join(fields)}", "--format=csv,noheader,nounits"]
    return subprocess.run(words, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True).stdout
