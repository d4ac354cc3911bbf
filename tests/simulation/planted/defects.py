"""The planted defects. Each replaces a text in one file, and names what must find it.

`make planted` plants all of them, and docs/simulation.md lists them. This module imports no module that a defect
changes.
"""

from dataclasses import dataclass
from typing import Final

FORWARD: Final = "never backward"
CLAIMANT: Final = "one claimant"
BOOKS: Final = "true ledger"
SURVIVES: Final = "survives any fault of infrastructure"
ORPHAN: Final = "no orphan"
ONE_END: Final = "one end"
BUDGETS: Final = "within budgets"
SEEN: Final = "a loss is seen in time"
IN_TIME: Final = "ends in time"
VERSIONS: Final = "true versions"
GANG: Final = "a whole gang, and one"
STORM: Final = "ten times, in any order, up to 90 s late, like all later events"


@dataclass(frozen=True)
class World:
    """A simulated world where the defect breaks the invariant."""

    text: str
    invariant: str


@dataclass(frozen=True)
class Defect:
    """A planted defect. `found_by` is a world or the id of a test."""

    name: str
    what: str
    file: str
    old: str
    new: str
    found_by: World | str

    @property
    def row(self) -> str:
        """Return its row in docs/simulation.md."""
        found = self.found_by
        by = f"*{found.invariant}* in `{found.text}`" if isinstance(found, World) else f"`{found}`"
        return f"| {self.name} | {self.what} | {by} |"


UNIT = "tests/unit/workflows"
LEDGER = "lambdas/aws/dynamodb/ledger.py"
ROWS = "lambdas/aws/dynamodb/rows.py"
PROGRESS = "lambdas/steps/signals/progress.py"
DEFECTS: tuple[Defect, ...] = (
    # ----- conditions that are left out
    Defect(
        "two-runs-one-warm-host",
        "a warm host is claimed without the condition on its row (D6)",
        ROWS,
        'Write(POOL, host.instance, only="run", delete=True)',
        "Write(POOL, host.instance, delete=True)",
        World("rivals: request train-launch#2/4 dynamodb.transact_write_items: slow by 45 s", CLAIMANT),
    ),
    Defect(
        "late-checkpoint",
        "a checkpoint that is reported late replaces a newer one",
        PROGRESS,
        ', rising=(("saved", serialization.timestamp(at)),)',
        "",
        f"{UNIT}/test_late_signals.py",
    ),
    Defect(
        "late-progress",
        "progress that is reported late replaces newer progress",
        PROGRESS,
        "run_row(run, progress, rising=newest)",
        "run_row(run, progress)",
        World(f"train: event HostSignal ready host-1 #1: {STORM}", FORWARD),
    ),
    Defect(
        "stopped-again",
        "a repeated `stopped` moves the time when the host left",
        "lambdas/steps/signals/endings.py",
        'stopped, rising=(("stopped", context.attempt),))',
        "stopped)",
        World(
            "train: host host-1 after progress #2: dies + event HostSignal stopped host-2 #1: twice",
            FORWARD,
        ),
    ),
    Defect(
        "two-slots-of-one",
        "a slot is given without counting the slots in use",
        "lambdas/steps/admission.py",
        "*((slot_given(given_before),) if has_it else ()),",
        "",
        "tests/simulation/test_limits.py::test_runs_wait_for_a_slot_and_all_get_one",
    ),
    Defect(
        "priority-ignored",
        "a full yard ignores the priorities of waiting runs",
        "lambdas/core/run/slots.py",
        "return -claim.priority, claim.created, claim.run",
        "return 0, claim.created, claim.run",
        "tests/simulation/test_limits.py::"
        "test_waiting_runs_start_by_priority_and_a_running_run_keeps_its_slot",
    ),
    Defect(
        "two-bakes",
        "the lock of bakes is taken while another bake holds it",
        LEDGER,
        '"attribute_not_exists(pk) OR #run IN (:mine, :over)",',
        '"attribute_not_exists(pk) OR #run IN (:mine, :over) OR attribute_exists(pk)",',
        World("bakes", CLAIMANT),
    ),
    Defect(
        "running-run-is-resumed",
        "Admit lets a run resume a run that is training",
        "lambdas/steps/job_check.py",
        "faults = (*faults, *resuming.faults(earlier, asked))",
        "pass",
        World("resumes", CLAIMANT),
    ),
    Defect(
        "version-ends-twice",
        "a version that is refused becomes ready by a second call of Publish",
        "lambdas/aws/dynamodb/models.py",
        'same = None if was is None else ("state", was.value)',
        "same = None",
        World(
            "versions: state version Publish #1: a user stops the execution"
            " + request version-publish#1/2 dynamodb.transact_write_items: slow by 45 s",
            FORWARD,
        ),
    ),
    Defect(
        "version-after-its-end",
        "Admit gives a version its number after its execution was stopped",
        "lambdas/workflows/version/admit.py",
        "    registry.check_not_cut(asked.request, found)\n",
        "",
        World(
            "versions: state version Admit #2: a user stops the execution"
            " + request version-admit#2/4 dynamodb.transact_write_items: slow by 45 s",
            VERSIONS,
        ),
    ),
    Defect(
        "version-without-files",
        "a version is ready although it was not copied",
        "lambdas/workflows/version/publish.py",
        'if outcome.kind not in ("agrees", "unchecked"):',
        'if outcome.kind == "differs":',
        World("versions: state version Copy #1: a user stops the execution", VERSIONS),
    ),
    Defect(
        "last-checkpoint-is-missed",
        "a run that resumes a saving run does not wait for the last checkpoint",
        "lambdas/steps/resuming.py",
        "if earlier is None or not is_open(earlier):",
        "if True:",
        World("resumes", CLAIMANT),
    ),
    Defect(
        "two-notifications",
        "the notification is sent a second time",
        "lambdas/steps/end_notification.py",
        'only="created", unless="notified", rising=died_before',
        'only="created"',
        f"{UNIT}/test_conclude.py::test_a_conclude_that_dies_before_it_sends_is_followed_by_another",
    ),
    Defect(
        "concluded-twice",
        "the notification does not depend on whether this Conclude ended the run",
        "lambdas/workflows/train/conclude.py",
        "if end.write(notifies=notifies) and notifies:",
        "end.write(notifies=notifies)\n    if notifies:",
        f"{UNIT}/test_conclude.py::test_the_loser_of_two_concludes_says_nothing",
    ),
    Defect(
        "summary-replaced",
        "the second of two Concludes replaces summary.json",
        "lambdas/steps/conclusion.py",
        "if s3.put_json_once(self.bucket, key, summary):",
        "if s3.put_json(self.bucket, key, summary) is None:",
        f"{UNIT}/test_conclude.py::test_the_loser_of_two_concludes_leaves_the_summary_and_ends_the_run_as_it_says",
    ),
    # ----- orders that are reversed
    Defect(
        "catalogue-before-manifest",
        "latest.json names a checkpoint before its manifest is written (D12)",
        "training/host/checkpoints/in_bucket.py",
        """    bucket.write(version.manifest_key, json.dumps(manifest.to_json(folder_of(version))).encode())
    catalogue = add_version(catalogue_of(bucket, run), version, keep=keep)
    write_catalogue(bucket, run, catalogue)
""",
        """    catalogue = add_version(catalogue_of(bucket, run), version, keep=keep)
    write_catalogue(bucket, run, catalogue)
    bucket.write(version.manifest_key, json.dumps(manifest.to_json(folder_of(version))).encode())
""",
        World("train", BOOKS),
    ),
    Defect(
        "catalogue-before-files",
        "latest.json names a checkpoint before its files are uploaded (D12, on a host)",
        "training/host/checkpoints/upload.py",
        "sent = in_bucket.upload_files(self.bucket, staging, staged, key)",
        "sent = {name: state.size for name, state in staged.items()}",
        "tests/unit/host/checkpoints/test_checkpoint_upload.py",
    ),
    Defect(
        "order-after-command",
        "an order is sent by Systems Manager before it is in the bucket (D9)",
        "lambdas/steps/orders.py",
        """    if not _write(bucket, order):
        return None
    given = {"Run": order.run, "Attempt": str(order.attempt)}
    try:
        return ssm.send_to_registered(
            document, order.hosts, given, comment=f"{order.run} {order.kind} {order.attempt}"
        )
""",
        """    given = {"Run": order.run, "Attempt": str(order.attempt)}
    try:
        sent = ssm.send_to_registered(
            document, order.hosts, given, comment=f"{order.run} {order.kind} {order.attempt}"
        )
        return sent if _write(bucket, order) else None
""",
        f"{UNIT}/test_orders.py",
    ),
    Defect(
        "pruned-too-early",
        "pruning deletes what the kept checkpoints need",
        "training/host/checkpoints/in_bucket.py",
        "bucket.delete(sorted(there - needed))",
        "bucket.delete(sorted(there))",
        "tests/unit/host/checkpoints/test_checkpoint_upload.py",
    ),
    # ----- events that are ignored, or believed
    Defect(
        "spot-warning-ignored",
        "signal ignores EC2's interruption warning (D19)",
        "lambdas/steps/signals/events.py",
        "for each in get_args(AwsEvent)}",
        "for each in get_args(AwsEvent) if each is not SpotWarning}",
        World("train: host host-1 after progress #2: is interrupted with 120 s of notice", BOOKS),
    ),
    Defect(
        "death-ignored",
        "signal ignores that EC2 has terminated a host",
        "lambdas/steps/signals/events.py",
        "for each in get_args(AwsEvent)}",
        "for each in get_args(AwsEvent) if each is not InstanceState}",
        World("train: host host-1 after progress #2: dies", SEEN),
    ),
    Defect(
        "forged-signal",
        "a signal in another host's name is accepted (D15)",
        "lambdas/workflows/signal.py",
        "    if sent.instance != sender:",
        "    if not sender:",
        f"{UNIT}/test_signal.py::test_a_host_speaks_for_itself_and_of_its_run_alone",
    ),
    Defect(
        "strangers-signal",
        "a host may send signals for a run that it does not belong to (D5)",
        "lambdas/workflows/signal.py",
        "    return owner.run == message.run\n",
        "    return True\n",
        f"{UNIT}/test_signal.py::test_a_host_speaks_for_itself_and_of_its_run_alone",
    ),
    Defect(
        "no-heartbeat",
        "a sign of life is recorded, but Train gets no heartbeat",
        PROGRESS,
        'return "alive" if states.heartbeat(token.token) else "alive, but Train no longer waits"',
        'return "alive"',
        World("elastic", BUDGETS),
    ),
    Defect(
        "one-bad-value",
        "a signal with one number that is too large is dropped",
        "trainyard/protocol/signals.py",
        "if any(each.required and each.key in wrong for each in keys):",
        "if wrong:",
        f"{UNIT}/test_late_signals.py",
    ),
    # ----- wrong units, denominators and boundaries
    Defect(
        "hours-in-the-pool",
        "hosts stay in the warm pool for hours instead of minutes (D17)",
        "lambdas/core/run/warm_host.py",
        "now + timedelta(minutes=self.minutes)",
        "now + timedelta(hours=self.minutes)",
        World("pool: event JobUploaded  #2: lost", BOOKS),
    ),
    Defect(
        "disk-by-the-day",
        "the price of a disk is divided by the hours of a day instead of a month",
        "trainyard/core/model/yard/billing.py",
        "return gib * gib_month / HOURS_A_MONTH",
        "return gib * gib_month / 24",
        "tests/unit/core/capacity/test_cost_and_summary.py",
    ),
    Defect(
        "one-restart-more",
        "a run has one restart more than its job allows",
        "lambdas/core/run/recovery.py",
        "if failed > restarts and not free:",
        "if failed > restarts + 1 and not free:",
        "tests/unit/core/run/test_recovery.py",
    ),
    Defect(
        "impatient-heartbeat",
        "the heartbeat timeout of Train is too short for the chief's interval",
        "lambdas/core/run/deadlines.py",
        "HEARTBEAT = timedelta(seconds=150)",
        "HEARTBEAT = timedelta(seconds=15)",
        World("elastic", BUDGETS),
    ),
    Defect(
        "every-page-but-one",
        "a list has only its first page",
        "lambdas/aws/calls.py",
        "return (item for page in pages for item in page[key])",
        "return iter(next(iter(pages))[key])",
        "tests/simulation/test_pages.py",
    ),
    # ----- what is forgotten
    Defect(
        "bake-claims-nothing",
        "a bake reserves none of the month's dollars",
        "lambdas/workflows/bake/admit.py",
        "dollars=promise.most_dollars(job, Prices(yard.aws_region, known.prices)),",
        "dollars=0.0,",
        "tests/simulation/test_limits.py::test_a_run_leaves_a_bake_the_dollars_that_it_may_cost",
    ),
    Defect(
        "yard-forgotten",
        "commands in the reasons of functions do not name their yard",
        "lambdas/steps/entry_point.py",
        "command_line.yard_options(environment.name_of_yard())",
        "()",
        f"{UNIT}/test_entry_point.py::test_commands_in_reasons_name_the_yard",
    ),
    Defect(
        "no-lease",
        "hosts are launched without the tag of their lease",
        "lambdas/workflows/train/launch/tags.py",
        "        Tag.LEASE: serialization.timestamp(lease),\n",
        "",
        World("train", ORPHAN),
    ),
    Defect(
        "evaluator-counts",
        "growth counts an evaluator as a worker (D7)",
        "lambdas/core/run/growth.py",
        "have = [host for host in records.remaining(records.run.attempt + 1) if host.gang is Gang.MAIN]",
        "have = records.remaining(records.run.attempt + 1)",
        "tests/unit/core/run/test_growth.py",
    ),
    Defect(
        "notification-forgotten",
        "patrol's Conclude does not send the notification that a killed Conclude has not sent",
        "lambdas/workflows/train/conclude.py",
        "end_notification.send_late(yard.table_name, yard.bucket_name, given.run, yard.topic_arn)",
        "pass",
        World(
            "train: request train-conclude#1/12 sns.publish: no connection until botocore gives up", ONE_END
        ),
    ),
    Defect(
        "cut-short-again",
        "an ended run is concluded again because its execution was cut short (D11)",
        "lambdas/steps/conclusion.py",
        "if given.cut_short and (has_concluded(records) if records else has_summary(bucket_name, run)):",
        "if False:",
        f"{UNIT}/test_conclude.py",
    ),
    Defect(
        "back-to-release",
        "a state that is written late replaces a later one, e.g. Release after the end of a run",
        ROWS,
        'stage="state" in values',
        "stage=False",
        World("resumes", FORWARD),
    ),
    Defect(
        "bill-begins-twice",
        "a second write of a host's launch moves the start of its bill",
        ROWS,
        'write_once=frozenset({"launched"})',
        "write_once=frozenset()",
        World("pool", FORWARD),
    ),
    Defect(
        "advice-without-checkpoint",
        "the end of a run recommends resuming it although its checkpoint is gone",
        "lambdas/workflows/train/conclude.py",
        "return needed <= set(objects if own else s3.list_keys(end.bucket, folder))",
        "return True",
        f"{UNIT}/test_conclude.py::test_no_end_advises_to_resume_a_run_whose_checkpoint_is_gone",
    ),
    Defect(
        "pruned-is-damaged",
        "a checkpoint that was replaced by newer ones is reported as damaged",
        "training/host/checkpoints/restore.py",
        "newer = in_bucket.replacement(bucket, owner, checkpoint.key)",
        "newer = None",
        "tests/unit/host/checkpoints/test_restore.py",
    ),
    Defect(
        "after-a-failure",
        "a run that waits for the success of another one starts after its failure",
        "lambdas/core/run/dependencies.py",
        "if wanted.when is When.SUCCESS and row.ended and row.outcome is not Outcome.SUCCEEDED:",
        "if False:",
        World("chain", FORWARD),
    ),
    Defect(
        "hours-while-waiting",
        "the hours of a run that waits for others begin with its submission",
        "lambdas/core/run/deadlines.py",
        "begun=records.run.hours_since,",
        "begun=records.run.created,",
        "tests/simulation/test_chains.py::test_the_hours_of_a_run_begin_once_it_may_start",
    ),
    Defect(
        "overlapping-times",
        "a schedule starts a run although its last run has not ended, and its rule is `skip`",
        "lambdas/core/schedules.py",
        "if row.overlap == Overlap.SKIP and (busy := _running(row, last, now)):",
        "if row.overlap == Overlap.SKIP and (busy := None):",
        World("schedule", CLAIMANT),
    ),
    Defect(
        "clocks-go-back",
        "a schedule is given to EventBridge Scheduler without its time zone",
        "lambdas/steps/schedules.py",
        "yard.yard, row.name, expression, row.zone, target,",
        'yard.yard, row.name, expression, "Etc/GMT-11", target,',
        World("schedule", ONE_END),
    ),
    Defect(
        "faulty-pool-again",
        "a run that was planned before a fatal Xid is requested in the pool of the faulty host",
        "lambdas/workflows/train/launch/__init__.py",
        "faulty = quarantine.find_indexes(plan.candidates, ledger.quarantined(), now) if planned_before else ()",
        "faulty = ()",
        World("chain: host host-1 after started #1: its GPU has a fatal error (Xid 79)", GANG),
    ),
)
BY_NAME = {each.name: each for each in DEFECTS}
