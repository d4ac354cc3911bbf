"""Serve a version of a model to clients of TensorFlow Serving, on the loopback interface of this host.

The data entry `model` has the version's files. The program answers the golden rows first. If a file was changed, or an
answer differs from the one at the export, it ends with REFUSED, and its last line has the reason. Then it serves gRPC
and REST. It ends after --idle-seconds without an answered prediction."""

import argparse
import signal
import threading
import time

from training.programs.arguments import SHOWN, at_least, parser_of
from training.programs.serving import grpc_server, rest
from training.programs.serving.idle import Idle
from training.programs.serving.model import Model, NotServedError
from trainyard.protocol.serving import DATA, GRPC_PORT, REFUSAL, REFUSED, REST_PORT
from trainyard.runtime.environment import Environment
from trainyard.runtime.metrics import report_progress
from trainyard.values.quantities import format_count

MINUTE = 60.0


def main() -> None:
    arguments, environment = parse_arguments(), Environment.from_os()
    ends = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: ends.set())  # answers under way are sent
    try:
        model = Model.load(
            environment.data_folder(DATA),
            arguments.model,
            arguments.version,
            label=arguments.label,
            record=arguments.record,
        )
        print(f"{model.named} loaded in {model.load_seconds:.1f} s; answering its golden rows", flush=True)
        print(model.check_golden(), flush=True)
    except NotServedError as refused:
        print(f"{REFUSAL}{refused}", flush=True)
        raise SystemExit(REFUSED) from None
    idle = Idle(arguments.idle_seconds, time.monotonic)
    with rest.serving(model, idle, arguments.rest_port) as port:
        print(f"REST: http://127.0.0.1:{port}/v1/models/{model.name}", flush=True)
        with grpc_server.serving(model, idle, arguments.grpc_port) as opened:
            print(f"gRPC: 127.0.0.1:{opened}" if opened else grpc_server.ABSENT, flush=True)
            report_progress(environment, {"step": 1})
            watch(environment, idle, ends)
    print(f"{format_count(idle.count, 'prediction')} answered in all", flush=True)


def watch(environment: Environment, idle: Idle, ends: threading.Event) -> None:
    """Return once no prediction was answered for the idle time, or once the program has to end. Print a line each
    minute, because the agent takes a program that prints nothing new for a hang."""
    reported = 0
    while (left := idle.left) > 0:
        if ends.wait(min(left, MINUTE)):
            return
        print(idle.sentence, flush=True)
        if idle.count > reported:
            reported = idle.count
            report_progress(environment, {"step": 1 + reported, "predictions": reported})


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--model", required=True, help="name of the model")
    parser.add_argument("--version", type=at_least(1), required=True, help="number of the version")
    parser.add_argument("--label", default="", help="label of the version")
    parser.add_argument("--record", help="SHA-256 of the version's trainyard.json")
    parser.add_argument("--idle-seconds", type=float, default=900.0, help=SHOWN)
    parser.add_argument("--grpc-port", type=at_least(0), default=GRPC_PORT, help=SHOWN)
    parser.add_argument("--rest-port", type=at_least(0), default=REST_PORT, help=SHOWN)
    return parser.parse_args()


if __name__ == "__main__":
    main()
