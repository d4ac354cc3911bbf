"""Jobs whose hosts and images are kept after the run."""

from __future__ import annotations

from typing import Any

ALONE: dict[str, Any] = {"cluster": {"strategy": "single", "workers": 1}}
KEPT: dict[str, Any] = {**ALONE, "hardware": {"market": "on_demand"}, "after": {"hosts": "stop"}}
