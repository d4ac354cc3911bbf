"""What TensorFlow says of itself and of this host, as one line of JSON: a program of its own, so that it lets go of
the GPUs when it has looked."""

import json
from dataclasses import asdict, dataclass

from training.host.errors import HostTrouble


@dataclass(frozen=True, slots=True)
class TensorFlowFacts:
    """`cuda` is what this TensorFlow was built with, empty for a build without it; `gpus` by TensorFlow's names."""

    tensorflow: str
    cuda: str
    gpus: tuple[str, ...]

    @staticmethod
    def from_output(output: str) -> "TensorFlowFacts":
        """Of all that was printed the last line. Raises HostTrouble where that says nothing."""
        last = next((line for line in reversed(output.splitlines()) if line.startswith("{")), "{}")
        try:
            facts = json.loads(last)
            return TensorFlowFacts(facts["tensorflow"], facts["cuda"], tuple(facts["gpus"]))
        except (KeyError, ValueError) as error:
            raise HostTrouble(f"TensorFlow did not say what it sees: {output[-400:].strip()}") from error


def main() -> None:
    import tensorflow as tf

    seen = TensorFlowFacts(
        tensorflow=tf.__version__,
        cuda=str(tf.sysconfig.get_build_info().get("cuda_version", "")),
        gpus=tuple(device.name for device in tf.config.list_physical_devices("GPU")),
    )
    print(json.dumps(asdict(seen)), flush=True)


if __name__ == "__main__":
    main()
