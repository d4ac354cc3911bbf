"""Invariants that must hold at every moment. They are checked whenever a host, a row or an object changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simulation.aws.dynamodb.tables import Key
from simulation.aws.dynamodb.values import Item
from simulation.aws.ec2 import Instance
from simulation.faults import Fault
from simulation.invariants import checks, studies
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from simulation.scenario import Scenario
    from simulation.yard import Yard

from simulation.invariants.ending import Ending
from simulation.invariants.model import Broken, Invariant
from simulation.invariants.models import Models
from simulation.invariants.serving import Hosts

HAS_HOSTS = ("AwaitHosts", "Train")
"""A run in these states waits neither for capacity nor for a slot."""
TAGS = (Tag.YARD, Tag.ATTEMPT, Tag.GANG, Tag.GPUS, Tag.LEASE, Tag.AFTER, Tag.PRICE, Tag.DISK)
"""Tags of each host that a run launches."""
END = ("ended", "outcome", "error")
"""Attributes of a run's row that describe its end."""
NEEDED = {"host": "launched", "token": "token"}
"""The attribute that must come first in the row of a host or of a wait."""


class Oracle:
    """Watches one yard from its beginning. Each invariant is reported at most once."""

    def __init__(self, yard: Yard, scenario: Scenario) -> None:
        self.yard, self.scenario = yard, scenario
        self.broken: dict[Invariant, Broken] = {}
        yard.ec2.on_change.append(lambda instance: self._look_at_gang(instance.tags.get(Tag.RUN)))
        yard.ec2.on_change.append(self._look_at_tags)
        yard.ec2.on_change.append(lambda _: self._look_at_builders())
        yard.dynamodb.on_change.append(lambda _, key, before, after: self._look_at_row(key, before, after))
        yard.on_object.append(self._look_at_object)
        self._claims = checks.Claims()
        self._models, self._hosts = Models(yard, self.breaks), Hosts(yard, self.breaks)
        yard.ec2.on_change.append(self._hosts.look)

    @property
    def faults(self) -> Sequence[Fault]:
        return self.yard.plan.all_faults

    def breaks(self, invariant: Invariant, what: str) -> None:
        if invariant not in self.broken:
            now = self.yard.world.now
            self.broken[invariant] = Broken(invariant, what, now)
            self.yard.world.note("oracle", f"sees a broken invariant: {invariant}", because=what)

    # ------------------------------------------------------------------------------------------------- while it goes

    def _look_at_gang(self, run: str | None) -> None:
        """Check that a run never has two gangs at once."""
        if not run or not self.scenario.gang:
            return
        live = [each for each in self.yard.ec2.find_tagged(Tag.RUN, run) if each.live]
        if len(live) > self.scenario.gang:
            names = ", ".join(each.id for each in live)
            self.breaks(
                Invariant.WHOLE_GANG,
                f"{run} has {len(live)} hosts at once ({names}) instead of {self.scenario.gang}",
            )

    def _look_at_tags(self, instance: Instance) -> None:
        """Check that each host of a run has all the tags that patrol, permissions and its own agent use."""
        lacks = [name for name in TAGS if name not in instance.tags]
        if Tag.RUN in instance.tags and instance.live and lacks:
            self.breaks(Invariant.NO_ORPHAN, f"{instance.id} is launched without the tags {', '.join(lacks)}")

    def _look_at_builders(self) -> None:
        """Check that there are never two bakes at once."""
        builders = [each for each in self.yard.ec2.instances.values() if each.tags.get(Tag.KIND) == "bake"]
        runs = sorted({each.tags[Tag.RUN] for each in builders if each.state in ("pending", "running")})
        if len(runs) > 1 and not self.faults:
            self.breaks(Invariant.ONE_CLAIMANT, f"{' and '.join(runs)} bake at once")

    def _look_at_row(self, key: Key, before: Item | None, after: Item | None) -> None:
        """Check a write to the ledger: signals update known hosts and waits, and `ended` never changes. Deletions
        are allowed."""
        self._models.look(key, after)
        if two := self._claims.look(key, after):
            self.breaks(Invariant.ONE_CLAIMANT, two)
        for back in checks.find_regressions(key, before, after) if before and after else ():
            self.breaks(Invariant.FORWARD, f"{key[0]} {key[1]}: {back}")
        if wrong := studies.check_write(self.yard, key, after):
            self.breaks(Invariant.WITHIN_BUDGETS, wrong)
        needed = NEEDED.get(key[1].partition("#")[0])
        if after and needed and needed not in after:
            self.breaks(Invariant.TRUE_LEDGER, f"{key} has {sorted(after)}, but nothing has created it")
        if key[1] != "run" or not after:
            return
        state = after.get("state", {}).get("S")
        if "waiting" in after and ("ended" in after or state in HAS_HOSTS):
            self.breaks(Invariant.TRUE_LEDGER, f"{key} says that the run waits, but it is in {state}")
        if not before or "ended" not in before:
            return
        was, now = ([row.get(each) for each in END] for row in (before, after))
        if was != now:
            self.breaks(Invariant.ONE_END, f"{key} first ended as {was}, then as {now}")

    def _look_at_object(self, key: str) -> None:
        """Check that a catalog names only complete checkpoints, and that credentials belong to the run of the host."""
        if missing := checks.find_missing(self.yard, key):
            self.breaks(Invariant.TRUE_LEDGER, missing)
        if replaced := checks.find_replaced_end(self.yard, key):
            self.breaks(Invariant.ONE_END, replaced)
        if stranger := checks.find_stranger(self.yard, key):
            self.breaks(Invariant.ONE_CLAIMANT, stranger)

    def conclude(self) -> list[Broken]:
        """Return all broken invariants at the end."""
        ending = Ending(self.yard, self.scenario, self.breaks)
        ending.conclude()
        is_survived = ending.only_infrastructure_failed()
        self._models.conclude(self.scenario, is_survived=is_survived)
        self._hosts.conclude(self._models, is_survived=is_survived)
        return list(self.broken.values())
