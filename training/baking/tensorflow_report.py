"""Print TensorFlow's versions and devices as one line of JSON. This is a separate program, so that its end frees the
GPUs."""

import json
from dataclasses import asdict, dataclass

from training.host.errors import HostTrouble


@dataclass(frozen=True, slots=True)
class TensorFlowReport:
    """TensorFlow's versions and devices."""

    tensorflow: str
    cuda: str
    """The CUDA version of this build; empty for a build without CUDA."""
    gpus: tuple[str, ...]
    """TensorFlow's names of the GPUs."""

    @staticmethod
    def from_output(output: str) -> "TensorFlowReport":
        """Parse the last line of the output. Raises HostTrouble if it has no facts."""
        last = next((line for line in reversed(output.splitlines()) if line.startswith("{")), "{}")
        try:
            facts = json.loads(last)
            return TensorFlowReport(facts["tensorflow"], facts["cuda"], tuple(facts["gpus"]))
        except (KeyError, ValueError) as error:
            raise HostTrouble(f"TensorFlow did not list its devices: {output[-400:].strip()}") from error


def main() -> None:
    import tensorflow as tf

    seen = TensorFlowReport(
        tensorflow=tf.__version__,
        cuda=str(tf.sysconfig.get_build_info().get("cuda_version", "")),
        gpus=tuple(device.name for device in tf.config.list_physical_devices("GPU")),
    )
    print(json.dumps(asdict(seen)), flush=True)


if __name__ == "__main__":
    main()
