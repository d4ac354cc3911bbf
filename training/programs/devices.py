"""The devices of this host by the names that TensorFlow gives them: which there are, and which are asked for."""

from collections.abc import Sequence

import tensorflow as tf

AUTO = "auto"


def present(stand_ins: int = 1) -> tuple[str, ...]:
    """GPUs, then CPUs, like /GPU:0. Where there is no GPU the CPU is cut into `stand_ins` logical devices.

    Call it before TensorFlow computes anything: a device cannot be cut later.
    """
    if stand_ins > 1 and not tf.config.list_physical_devices("GPU"):
        (processor,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * stand_ins
        tf.config.set_logical_device_configuration(processor, parts)
    return tuple(
        f"/{kind}:{index}"
        for kind in ("GPU", "CPU")
        for index in range(len(tf.config.list_logical_devices(kind)))
    )


def of_kind(kind: str, here: Sequence[str]) -> tuple[str, ...]:
    return tuple(device for device in here if device.startswith(f"/{kind}:"))


def best(here: Sequence[str]) -> tuple[str, ...]:
    """Every GPU; where there is none, every CPU."""
    return of_kind("GPU", here) or of_kind("CPU", here)


def chosen(words: str, here: Sequence[str]) -> tuple[str, ...]:
    """The devices of a list like `/GPU:0,/GPU:1`; `auto` is the best. Raises SystemExit for one that is not here."""
    if words == AUTO:
        return best(here)
    wanted = tuple(_name(word) for word in words.split(","))
    absent = [device for device in wanted if device not in here]
    if absent:
        raise SystemExit(
            f"there is no {' and no '.join(absent)} on this host; it has {', '.join(here)}. "
            f"Name one of these, or say {AUTO}"
        )
    return wanted


def _name(word: str) -> str:
    """/GPU:0 for everything TensorFlow takes for it: GPU:0, gpu:0, /device:GPU:0."""
    kind, _, index = word.strip().removeprefix("/").removeprefix("device:").partition(":")
    return f"/{kind.upper()}:{index or 0}"
