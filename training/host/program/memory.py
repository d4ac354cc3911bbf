"""Want of memory: what the kernel says about having killed for it."""

import re
from pathlib import Path

COUNTER = Path("/proc/vmstat")


def killed_for_memory() -> int | None:
    """How many processes the kernel has killed for want of memory since it started; None where it does not say."""
    try:
        found = re.search(r"^oom_kill (\d+)$", COUNTER.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None
