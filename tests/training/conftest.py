"""These tests train for real: they need TensorFlow and run in the environment that has it."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]
