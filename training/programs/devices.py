"""The devices of this host, by TensorFlow's names, and the choice of some of them."""

from collections.abc import Sequence

import tensorflow as tf

AUTO = "auto"


def present(stand_ins: int = 1) -> tuple[str, ...]:
    """Return the GPUs, then the CPUs, as in /GPU:0. Without a GPU, the CPU is split into `stand_ins` logical devices.

    Call this before TensorFlow computes: a device cannot be split later.
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


def find_kind(kind: str, here: Sequence[str]) -> tuple[str, ...]:
    return tuple(device for device in here if device.startswith(f"/{kind}:"))


def best(here: Sequence[str]) -> tuple[str, ...]:
    """Return all GPUs, or all CPUs on a host without a GPU."""
    return find_kind("GPU", here) or find_kind("CPU", here)


def choose_devices(names: str, here: Sequence[str]) -> tuple[str, ...]:
    """Return the devices of a list like `/GPU:0,/GPU:1`, or the best for `auto`. Raises SystemExit for missing ones."""
    if names == AUTO:
        return best(here)
    wanted = tuple(_full_name(name) for name in names.split(","))
    absent = [device for device in wanted if device not in here]
    if absent:
        raise SystemExit(
            f"there is no {' and no '.join(absent)} on this host; it has {', '.join(here)}. "
            f"Name one of these, or {AUTO}"
        )
    return wanted


def _full_name(name: str) -> str:
    """Return /GPU:0 for all forms that TensorFlow accepts: GPU:0, gpu:0, /device:GPU:0."""
    kind, _, index = name.strip().removeprefix("/").removeprefix("device:").partition(":")
    return f"/{kind.upper()}:{index or 0}"
