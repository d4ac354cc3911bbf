"""The imports of the process that forks all programs (processes.py)."""

import gc

import tensorflow  # noqa: F401 - for whoever is forked
import tf_keras  # noqa: F401

gc.collect()
gc.freeze()  # a fork that looks for garbage need not look at, and so copy, what was there before it
gc.set_threshold(50_000, 20, 100)
