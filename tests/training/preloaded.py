"""The imports of the process that forks all programs (processes.py)."""

import gc

import tensorflow  # noqa: F401 - for forked programs
import tf_keras  # noqa: F401

gc.collect()
gc.freeze()  # a fork's garbage collection must not copy these objects
gc.set_threshold(50_000, 20, 100)
