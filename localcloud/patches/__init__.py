"""Names of libraries that the local cloud replaces, wraps or extends: one table for each library.

The tables are the YAML files. A library is imported when one of its names is first used, because the server must set
its environment before.
"""

from __future__ import annotations

from localcloud.patches.table import Patches

HYPERCORN = Patches("hypercorn")
MINISTACK = Patches("ministack")
MOTO = Patches("moto")
