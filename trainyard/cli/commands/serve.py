"""Serve a model on a host with TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.arguments import MOST_PORT
from trainyard.cli.command import command
from trainyard.cli.commands.hold import period
from trainyard.cli.dev_hosts import step_printer
from trainyard.cli.models import OfVersion
from trainyard.cli.options import Options
from trainyard.command_line import command_line
from trainyard.core.model.instance_types import MarketChoice
from trainyard.protocol.serving import GRPC_PORT, REST_PORT

if TYPE_CHECKING:
    from trainyard.client import Yard
    from trainyard.client.serving import ServedHost

OPEN, LS, STOP = "open", "ls", "stop"


@command(
    "trainyard serve digits",
    "trainyard serve digits --on g6.xlarge --idle 15m --hours 8",
    "trainyard serve open digits",
    "trainyard serve stop digits",
    "trainyard serve ls",
)
def serve(
    options: Options,
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORDS", help="MODEL, or: open MODEL, stop MODEL, ls."),
    ],
    version: OfVersion = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on", metavar="TYPE", help="Instance type. Repeat it to use the cheapest available one."
        ),
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time without predictions until the host ends, e.g. 15m."),
    ] = None,
    hours: Annotated[
        float | None, typer.Option(metavar="N", help="Maximum running time, in use or not. Default: 12.")
    ] = None,
    dollars: Annotated[
        float | None, typer.Option(metavar="N", help="The most that the run may cost. Default: 20.")
    ] = None,
    market: Annotated[
        MarketChoice | None, typer.Option(metavar="WORD", help="on_demand, spot or spot_then_on_demand.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", help="Local port for REST; 0 takes any free port.", min=0, max=MOST_PORT)
    ] = REST_PORT,
    grpc_port: Annotated[
        int, typer.Option("--grpc-port", help="Local port for gRPC; 0: any free port.", min=0, max=MOST_PORT)
    ] = GRPC_PORT,
) -> None:
    """Serve a model on a host with TensorFlow, for clients of TensorFlow Serving.

    Starts a run that answers the golden rows first, then gRPC and REST, and that ends after the idle time. Without
    options, the host is as at its last start. `open` forwards its ports to this computer until Ctrl-C. `stop` stops
    the run. `ls` lists the hosts.
    """
    yard = options.find()
    match words:
        case [word] if word == LS:
            _list(options, yard)
        case [word, model] if word == OPEN:
            _open(options, yard, model, version, {REST_PORT: port, GRPC_PORT: grpc_port})
        case [word, model] if word == STOP:
            _stop(options, yard, model, version)
        case [model] if model not in (OPEN, STOP):
            given = {
                "instance_types": tuple(on or ()) or None,
                "market": market.value if market else None,
                "idle_minutes": period(idle).total_seconds() / 60 if idle else None,
                "hours": hours,
                "dollars": dollars,
            }
            _start(
                options,
                yard,
                model,
                version,
                {key: value for key, value in given.items() if value is not None},
            )
        case _:
            raise typer.BadParameter(f"found {' '.join(words)!r}; use MODEL, open MODEL, stop MODEL, or ls")


def _start(
    options: Options, yard: Yard, model: str, version: str | None, given: Mapping[str, object]
) -> None:
    from trainyard.cli.output import terminal
    from trainyard.client import serving
    from trainyard.client.serving_cost import describe_cost, how_of

    known = yard.model(model)
    row = known.find_version(version)
    how = how_of(known.rows.served_as(row.number), given)
    if not options.quiet:
        terminal.hint(describe_cost(yard, how))
    host = serving.start(known, str(row.number), how, step_printer(options))
    if options.is_json:
        terminal.answer({"model": model, "version": host.version, "run": host.run, "host": host.instance})
        return
    terminal.console.print(
        f"{host.run} serves version {row.shown} of {model} on {host.instance}", markup=False, soft_wrap=True
    )
    if not options.quiet:
        terminal.hint(f"Ports: {command_line('serve', 'open', model)}")
        terminal.hint(f"Stop:  {command_line('serve', 'stop', model)}")


def _open(options: Options, yard: Yard, model: str, version: str | None, ports: Mapping[int, int]) -> None:
    from trainyard.cli.output import terminal
    from trainyard.client import serving

    def ready(host: ServedHost, opened: Mapping[int, int]) -> None:
        rest, grpc = opened[REST_PORT], opened[GRPC_PORT]
        if options.is_json:
            terminal.answer_line({"host": host.instance, "run": host.run, "rest": rest, "grpc": grpc})
            return
        address = f"http://127.0.0.1:{rest}/v1/models/{model}"
        terminal.console.print(f"REST {address}", markup=False, highlight=False, soft_wrap=True)
        terminal.console.print(f"gRPC 127.0.0.1:{grpc}", markup=False, highlight=False)
        if not options.quiet:
            terminal.hint("Ctrl-C ends the forward. The host ends after its idle time.")

    serving.hold(yard.model(model), version, ports, ready, terminal.note)


def _stop(options: Options, yard: Yard, model: str, version: str | None) -> None:
    from trainyard.cli.output import terminal
    from trainyard.client import serving

    host = serving.find(yard.model(model), version)
    yard.run(host.run).stop()
    if options.is_json:
        terminal.answer({"model": model, "version": host.version, "run": host.run, "stopping": True})
    else:
        terminal.console.print(f"{host.run} is asked to stop", markup=False)


def _list(options: Options, yard: Yard) -> None:
    from dataclasses import asdict

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client.serving_cost import list_hosts
    from trainyard.values.quantities import format_roughly

    found = list_hosts(yard)
    if options.is_json:
        terminal.answer([asdict(each) for each in found])
        return
    columns = (
        Column("MODEL"),
        Column("VERSION", right=True),
        Column("STATE"),
        Column("RUN"),
        Column("$/H", 1, right=True),
        Column("IDLE", 2, right=True),
        Column("BY", 3),
    )
    rows = [
        (
            each.model,
            str(each.version),
            each.state,
            each.run,
            "" if each.price is None else f"{each.price:.3f}",
            format_roughly(60 * each.idle_minutes),
            each.by,
        )
        for each in found
    ]
    terminal.table(columns, rows)
