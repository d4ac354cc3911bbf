"""Money, counts, spans of time and bytes as people say them."""


def dollars(amount: float | None) -> str:
    """Money, small sums too."""
    if amount is None:
        return "unknown"
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 host`, `2 hosts`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def span(seconds: float) -> str:
    """How long, in two units at most."""
    whole = max(int(seconds), 0)
    for size, unit, below, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size}{unit}{f'{rest}{smaller}' if rest else ''}"
    return f"{whole}s"


def rounded(seconds: float) -> str:
    """A span of time in one unit, for sentences: `34 s`, `30 min`, `3 h`, `2 days`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days"


def sized(count: float) -> str:
    """Bytes as people say them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError
