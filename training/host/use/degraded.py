"""Find GPUs that the driver slows down, or whose link is slower than it could be, from the use of the hosts. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainyard.core.model import host_use
from trainyard.core.model.host_use import HostUse

LEAST_SAMPLES = 9
"""A GPU is named after this many samples in a row: three minutes."""
LEAST_MINUTES = 3
WHOLE_LINK = 99.0
REASONS = (
    (host_use.THERMAL, "thermal slowdown"),
    (host_use.POWER_BRAKE, "its power supply brakes it"),
    (host_use.SLOWDOWNS, "hardware slowdown"),
)
"""The reasons for a lower clock. The driver sets the last one beside each other one of the hardware."""


@dataclass(frozen=True, slots=True)
class Span:
    """The last samples of one GPU, as long as a condition holds."""

    gpu: int
    samples: int
    seconds: int


def find_degraded(hosts: Sequence[HostUse]) -> dict[str, str]:
    """Return one sentence without a period for each host with such a GPU, by instance."""
    said = {host.instance: _slowed(host) or _narrowed(host) for host in hosts}
    return {instance: sentence for instance, sentence in said.items() if sentence}


def _slowed(host: HostUse) -> str | None:
    spans = _spans(host, host_use.SLOWED, lambda bits: bits > 0)
    if not spans:
        return None
    longest = max(spans, key=lambda span: span.samples)
    last = host.column(host_use.of_gpu(host_use.SLOWED, longest.gpu), last=longest.samples)
    why = next(words for bits, words in REASONS if any(int(each) & bits for each in last))
    clock = host.mean(host_use.of_gpu(host_use.CLOCK, longest.gpu), last=longest.samples)
    did = "was slowed down" if clock is None else f"ran at {clock:.0f} % of its clock"
    return f"{_name(host, spans)} {did} for at least {_minutes(longest)} minutes: {why}"


def _narrowed(host: HostUse) -> str | None:
    spans = _spans(host, host_use.LINK, lambda percent: percent < WHOLE_LINK)
    if not spans:
        return None
    longest = max(spans, key=lambda span: span.samples)
    link = host.mean(host_use.of_gpu(host_use.LINK, longest.gpu), last=longest.samples)
    who, minutes = _name(host, spans), _minutes(longest)
    return f"{who} had {link:.0f} % of the bandwidth of its PCIe link for at least {minutes} minutes"


def _spans(host: HostUse, measure: str, holds: Callable[[float], bool]) -> list[Span]:
    found = (_span(host, number, measure, holds) for number in range(host.gpus))
    return [span for span in found if span]


def _span(host: HostUse, gpu: int, measure: str, holds: Callable[[float], bool]) -> Span | None:
    """Return the span that lasts until now; None if it is too short. Samples with an unknown value are skipped."""
    samples = known = 0
    for value in reversed(host.columns.get(host_use.of_gpu(measure, gpu), [])):
        if value is not None and not holds(value):
            break
        samples += 1
        known += value is not None
    return Span(gpu, samples, host.at[-1] - host.at[-samples]) if known >= LEAST_SAMPLES else None


def _minutes(span: Span) -> int:
    """Return 3, 6, 12, 24, ...: a sentence that lasts must not change with each sample."""
    minutes = LEAST_MINUTES
    while 2 * minutes <= span.seconds // 60:
        minutes *= 2
    return minutes


def _name(host: HostUse, spans: Sequence[Span]) -> str:
    numbers = ", ".join(str(span.gpu) for span in spans)
    what = f"GPU {numbers}" if len(spans) == 1 else f"each of the GPUs {numbers}"
    return f"{what} of {host.role} ({host.instance})"
