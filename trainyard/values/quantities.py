"""Money, counts, durations and sizes in the formats of the command line, the page and the errors."""


def dollars(amount: float | None) -> str:
    """Format an amount of money. Amounts below $1 have four decimals."""
    if amount is None:
        return "unknown"
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun: `1 host`, `2 hosts`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def span(seconds: float) -> str:
    """Format a duration in at most two units."""
    whole = max(int(seconds), 0)
    for size, unit, below, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size}{unit}{f'{rest}{smaller}' if rest else ''}"
    return f"{whole}s"


def format_roughly(seconds: float) -> str:
    """Format a duration in one unit, for sentences: `34 s`, `30 min`, `3 h`, `2 days`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days"


def format_bytes(count: float) -> str:
    """Format a number of bytes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError
