"""Names of libraries that the local cloud replaces, wraps or adds to: one table a library, applied from here alone.

The tables are the YAML files. A library is imported at the first use of one of its names: the server sets its
environment before.
"""

from __future__ import annotations

from localcloud.patches.table import Patches

HYPERCORN = Patches("hypercorn")
MINISTACK = Patches("ministack")
MOTO = Patches("moto")
