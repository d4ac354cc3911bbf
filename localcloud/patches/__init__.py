"""Names of libraries that the local cloud replaces, wraps or adds to: one table a library, applied from here alone.

`ministack.yaml` and `moto.yaml` are the tables. A library is imported at the first use of one of its names: the server
sets its environment before.
"""

from __future__ import annotations

from localcloud.patches.table import Patches

MINISTACK = Patches("ministack")
MOTO = Patches("moto")
