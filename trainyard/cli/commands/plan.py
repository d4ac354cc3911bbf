"""List the capacity pools that a run would try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainyard.cli.arguments import Changes, File, parse_changes
from trainyard.cli.command import command
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client.runs.plan import JobPlan


@command("trainyard plan job.yaml", "trainyard plan job.yaml --set cluster.workers=4")
def plan(options: Options, job: File, changes: Changes = None) -> None:
    """Show which capacity pools a run would try, and its price.

    Lists the pools in order, and the excluded ones with the reason. Launches nothing.
    """
    from dataclasses import asdict

    from trainyard.cli.output import terminal

    yard = options.find()
    with terminal.busy("planning ...", options.quiet or options.is_json):
        found = yard.plan(job, set=parse_changes(changes))
    if options.is_json:
        terminal.answer(asdict(found))
    else:
        _show(found, quiet=options.quiet)


def _show(found: JobPlan, *, quiet: bool) -> None:
    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.values.quantities import dollars, format_count

    shown: tuple[Column, ...] = (
        Column("TYPE"),
        Column("ZONE"),
        Column("MARKET", 1),
        Column("$/H", right=True),
        Column("ON DEMAND", 2, right=True),
        Column("WITH", 3),
    )
    gang, elastic = found.gang, found.least_gang < found.gang
    if elastic:
        shown = (*shown, Column("HOSTS", right=True))
    rows = [
        (
            pool.type,
            pool.zone,
            pool.market,
            f"{pool.price * hosts:.3f}",
            f"{pool.on_demand_price * hosts:.3f}" if pool.on_demand_price is not None else "",
            ", ".join(pool.beside),
            *([f"{found.least_gang}-{hosts}"] if elastic else []),
        )
        for pool, hosts in ((pool, pool.workers or gang) for pool in found.pools)
    ]
    terminal.table(shown, rows)
    for line in excluded_lines(found):
        terminal.console.print(line, markup=False, soft_wrap=not terminal.console.is_terminal)
    cap = f"at most ${found.hourly_cap:g} an hour" if found.hourly_cap else "without an hourly limit"
    least = f"{found.least_gang} to " if elastic else ""
    started = f"{least}{format_count(gang, 'host')} from {found.image}, {cap}"
    if not quiet:
        terminal.note(started)
        terminal.note(found.reason)
        if found.pool_dollars is not None:
            terminal.note(
                f"warm pool: at most {dollars(found.pool_dollars)} for hosts that wait for the next run"
            )
        for code, vcpus in found.quotas.items():
            terminal.note(f"quota {code}: {vcpus:g} vCPUs")
        for warning in found.warnings:
            terminal.note(f"warning: {warning}")


def excluded_lines(found: JobPlan) -> list[str]:
    """Return a line for each reason, with the excluded pools."""
    pools: dict[tuple[str, str], list[str]] = {}
    for each in found.left_out:
        pools.setdefault((each.type, each.reason), []).append(f"{each.zone} {each.market}")
    return [f"excluded: {type_} in {', '.join(where)}: {reason}" for (type_, reason), where in pools.items()]
