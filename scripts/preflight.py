"""Whether the account and region of the environment are ready for this yard, as a table.

    python -m scripts.preflight [--request] [-c monthly_dollars=500 ...]

Exits with 0 when everything is there, 1 when the yard can be deployed and jobs with GPUs need something first, 3 when
it cannot be deployed.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lambdas.core.images.recipe import Builder
from trainyard.client import Session, YardError
from trainyard.client.preflight import Need, Needs, Network, Preflight, Verdict, look, request_increases
from trainyard.core.model.instance_types import Market, cpu_types, instance_type, quota
from trainyard.core.model.job import Hardware

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
"""A gang of the demo's size: what a first job asks for."""
WIDTH_OF_A_LOG = 140
COLOURS = {
    Verdict.READY: "green",
    Verdict.ASKED: "cyan",
    Verdict.SHORT: "yellow",
    Verdict.UNKNOWN: "yellow",
    Verdict.MISSING: "red",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--request", action="store_true", help="ask AWS for the quotas that are too small")
    parser.add_argument(
        "-c", "--context", action="append", default=[], metavar="KEY=VALUE", help="as for cdk"
    )
    arguments, _ = parser.parse_known_args()
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    context |= dict(given.split("=", 1) for given in arguments.context if "=" in given)
    console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_LOG)
    try:
        session, needs = Session.of(), needs_of(context)
        seen = look(session, needs)
        if arguments.request and (asked := request_increases(session, seen)):
            console.print(
                f"Asked AWS for {', '.join(f'{row.desired} vCPUs of {row.quota}' for row in asked)}."
            )
            seen = look(session, needs)
    except YardError as error:
        Console(stderr=True, soft_wrap=True).print(f"preflight: {error}", markup=False, highlight=False)
        return 3
    show(seen, console)
    return 0 if seen.is_ready else 1 if seen.can_deploy else 3


def needs_of(context: Mapping[str, Any]) -> Needs:
    """Of a yard with these settings: an instance to bake its image on, and a first job of two workers on spot; without
    quotas for GPUs both on processors."""
    jobs, builder = Hardware().instance_types, Builder().instance_types
    gpu, baking, cpu = (instance_type(name) for name in (jobs[0], builder[0], cpu_types()[0]))
    wanted = (
        (quota(gpu, Market.SPOT), WORKERS * gpu.vcpus, f"{WORKERS} x {gpu.name} on spot"),
        (quota(baking, Market.ON_DEMAND), baking.vcpus, f"a bake on {baking.name} where spot has no room"),
        (quota(cpu, Market.ON_DEMAND), cpu.vcpus, f"a bake and a first job without a GPU, on {cpu.name}"),
        (quota(cpu, Market.SPOT), cpu.vcpus, f"parameter servers on {cpu.name}"),
    )
    return Needs(
        types=sorted({*jobs, *builder}),
        quotas=[Need(known.code, known.name, vcpus, purpose) for known, vcpus, purpose in wanted if known],
        monthly_dollars=float(context["monthly_dollars"]),
        notify=context["notify"],
        network=Network(
            vpc=context["vpc"],
            subnets=[each.strip() for each in context["subnets"].split(",") if each.strip()],
            private=str(context["private"]).lower() == "true",
            base_image_parameter=context["base_image_parameter"],
        ),
        key=context["kms_key"],
    )


def show(seen: Preflight, console: Console) -> None:
    """The table, and below it what to type."""
    table = Table(title="Preflight", title_justify="left", box=None)
    for heading in ("", "found", "needed", ""):
        table.add_column(heading, overflow="fold")
    for row in seen.rows:
        verdict = f"[{COLOURS[row.verdict]}]{row.verdict}[/]"
        table.add_row(escape(row.subject), escape(row.found), escape(row.needed), verdict)
    console.print(table)
    for row in seen.rows:
        if row.next_step:
            console.print(f"{escape(row.subject)}: {escape(row.next_step)}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
