"""TensorFlow lacks the names that warnings mention, and the suggested replacements work."""

import importlib.util
import os
import subprocess
import sys
from functools import reduce
from typing import Any

import pytest
import tensorflow as tf

from trainyard.core.jobfile import tensorflow_names

BELOW_V1 = [f"compat.v1.{name}" for name in tensorflow_names.KERAS_2_ONLY]


def found(name: str) -> Any:
    return reduce(getattr, name.split("."), tf)


@pytest.mark.parametrize("name", sorted([*tensorflow_names.GONE, *tensorflow_names.VERSION_1, *BELOW_V1]))
def test_a_name_that_is_warned_of_is_not_there(name: str) -> None:
    with pytest.raises(AttributeError):
        found(name)


@pytest.mark.parametrize("name", sorted(tensorflow_names.VERSION_1))
def test_version_1_has_what_is_said_to_be_there(name: str) -> None:
    assert found(f"compat.v1.{name}") is not None


def test_keras_2_has_the_rest() -> None:
    look = (
        f"import tensorflow.compat.v1 as tf\nfor name in {tensorflow_names.KERAS_2_ONLY}: eval('tf.' + name)"
    )
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", look], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["tensorflow.contrib", "tensorflow.examples", "tensorflow.estimator"])
def test_the_modules_are_gone_too(module: str) -> None:
    assert importlib.util.find_spec(module) is None
