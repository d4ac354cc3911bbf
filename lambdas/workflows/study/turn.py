"""Turn of study: settle everything that has happened to the trials of a study, and start the next ones.

The state Search calls it with its task token, a rule calls it when an execution of a trial has ended, and patrol calls
it each minute. Turns may overlap: a turn writes only if no other turn has written since it read the rows."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from lambdas import environment
from lambdas.aws import messages, s3, states
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.aws.dynamodb.rows import event_row, run_row
from lambdas.aws.dynamodb.studies import Studies, StudyRows, next_row, started_rows, trial_rows
from lambdas.core.run.recovery import Trouble
from lambdas.core.study import importance, results, trials, turn
from lambdas.core.study.results import Result
from lambdas.core.study.sampling import Sampling
from lambdas.core.study.situation import Over, Sampler, Situation, Turn
from lambdas.core.study.turn import MOST_NEW
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import attempts, warm_start
from lambdas.steps.attempts import Finished
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Nothing
from lambdas.steps.observability import clock, logger, note, set_log_context
from lambdas.steps.signals.events import Event, StudyEnds
from trainyard.core.model import submitter
from trainyard.core.model.job import Job
from trainyard.core.model.study import Study
from trainyard.protocol import keys, sources, trial
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.protocol.ledger.study import Search, StudyRow, TrialRow, TrialState
from trainyard.protocol.trial import Trial
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

MOST_TURNS = 10
"""The most turns of one call. A turn that another turn has overtaken is repeated, and so is one that reports or starts
as many trials as fit."""
TO_BEGIN = timedelta(minutes=2)
"""The time after which the execution of a trial without a run counts as ended, if Step Functions says so."""
MOST_ROWS = 98
"""The most trials of one transaction, beside the two rows of the study."""
SEARCH = "search"
"""The wait of the state Search."""


class TurnSettings(YardSettings):
    train_state_machine_arn: str


NEEDS = Needs(
    TurnSettings,
    (
        may("answer tasks", "Success", "Failure"),
        may("start executions", "train"),
        may("describe executions", "train"),
        may("invoke functions", "signal"),
        may("read and list objects", keys.metrics(keys.ANY), keys.warm(keys.ANY)),
        may("use the ledger", "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem"),
    ),
    minutes=2,
    memory_mib=1769,
    compiled="study",
)


@dataclass(frozen=True, kw_only=True)
class TurnInput:
    """A call by the state Search, by the rule for ended trials, or by patrol."""

    run: str
    """The study, the execution of its state Search, or the run of one of its trials."""
    task_token: str | None = None
    """The task token of Search."""


@entry_point
def handler(given: TurnInput) -> Nothing:
    yard = environment.read(TurnSettings)
    study, part = trial.part_of(trial.study_of(given.run) or given.run)
    set_log_context(study)
    if given.task_token:
        ledger = Ledger(yard.table_name)
        attempts.begin_wait(ledger, study, part, SEARCH, given.task_token, clock(), state=SEARCH.capitalize())
    for _ in range(MOST_TURNS):
        if not _take_turn(yard, study, clock()):
            break
    return Nothing()


def _take_turn(yard: TurnSettings, study: str, now: datetime) -> bool:
    """Take one turn. Return True if another turn must follow at once."""
    ledger = Ledger(yard.table_name)
    row, found = ledger.run(study), Studies(yard.table_name).read(study)
    if row is None or found is None or row.ended or row.cut_short:
        logger.info("%s is over, or unknown", study)
        return False
    job = serialization.from_json(Job, row.job or {})
    assert job.study, "the job of a study has the section"
    runs = _read_runs(yard, study, found, now)
    costs = _find_changed_costs(study, found.trials, runs)
    given = Situation(
        study=job.study,
        most_dollars=job.limits.dollars,
        row=found.row,
        trials=[costs.get(each.number, each) for each in found.trials],
        points=found.waiting,
        results=_find_results(yard, job.study, study, found.trials, runs, now),
        is_metric_seen=any(run.objective for run in runs.values() if run.ended is None),
        reserve=_find_reserve(ledger, study, job, found.row, runs, now),
        stopped_by=row.stopped_by if row.stopping else None,
        now=now,
    )
    warm = partial(warm_start.load, yard.bucket_name, study) if job.study.warm else tuple
    decided = _with_importance(given, turn.decide(given, partial(_start_sampler, warm)))
    changed = {each.number: each for each in decided.changed}
    changed |= {number: each for number, each in costs.items() if number not in changed}
    if changed or replace(decided.row, version=found.row.version) != found.row:
        try:
            ledger.write(
                next_row(study, decided.row),
                run_row(study, {"search": _search_of(job.study, decided)}),
                *trial_rows(study, [*changed.values()][:MOST_ROWS]),
            )
        except AlreadyWrittenError:
            logger.info("another turn of %s was faster", study)
            return True
    _start(yard, row, job, decided, found.row.until)
    for each in decided.to_stop:
        _invoke_signal(yard, each.run_of(study), runs, now)
    if decided.over:
        for run in sorted({host.run for host in ledger.pool() if host.study == study}):
            _invoke_signal(yard, run, runs, now)
        _end(ledger, study, found.row.part, decided.over, now)
    return len(decided.changed) >= MOST_NEW


def _with_importance(given: Situation, decided: Turn) -> Turn:
    if not importance.is_due(given.row, decided.row):
        return decided
    rows = {row.number: row for row in (*given.trials, *decided.changed)}
    found = importance.measure(given.study, rows.values())
    return replace(decided, row=replace(decided.row, importance=found))


def _start_sampler(
    load_warm: Callable[[], tuple[TrialRow, ...]], study: Study, trials: Sequence[TrialRow]
) -> Sampler:
    return Sampling(study, trials, load_warm()).draw


def _read_runs(yard: TurnSettings, study: str, found: StudyRows, now: datetime) -> dict[str, RunRow]:
    """Return the runs of the trials that run, and of those whose warm hosts may still cost money."""
    read = trials.list_read(found.trials, now)
    return Logbook(yard.table_name).runs(row.run_of(study) for row in read)


def _find_changed_costs(
    study: str, rows: Sequence[TrialRow], runs: Mapping[str, RunRow]
) -> dict[int, TrialRow]:
    """Return the ended trials whose warm hosts have added to the cost."""
    ended = ((row, runs.get(row.run_of(study))) for row in rows if row.reported)
    return {
        row.number: replace(row, dollars=run.dollars)
        for row, run in ended
        if run and run.dollars is not None and run.dollars != row.dollars
    }


def _find_results(
    yard: TurnSettings,
    section: Study,
    study: str,
    rows: Sequence[TrialRow],
    runs: Mapping[str, RunRow],
    now: datetime,
) -> dict[int, Result]:
    """Return the results of the trials that have ended and are not reported."""
    found: dict[int, Result] = {}
    for row in (row for row in rows if row.state.is_open):
        run = runs.get(row.run_of(study))
        if run and run.ended:
            metrics = _read_metrics(yard, run) if run.outcome is Outcome.SUCCEEDED else None
            found[row.number] = results.result_of(run, metrics, section.objective.metric)
        elif run is None and _never_began(yard, row, study, now):
            found[row.number] = results.lost("its execution ended before its run began")
        if len(found) == MOST_NEW:
            break
    return found


def _never_began(yard: TurnSettings, row: TrialRow, study: str, now: datetime) -> bool:
    is_late = row.started is not None and now - row.started > TO_BEGIN
    return is_late and states.is_over(_execution_of(yard, row.run_of(study)))


def _read_metrics(yard: TurnSettings, run: RunRow) -> Mapping[str, Any] | None:
    try:
        return s3.get_json(yard.bucket_name, keys.metrics(run.run))
    except ValueError as error:
        logger.warning("metrics.json of %s cannot be read: %s", run.run, error)
        return None


def _find_reserve(
    ledger: Ledger, study: str, job: Job, row: StudyRow, runs: Mapping[str, RunRow], now: datetime
) -> float:
    """Return the dollars that warm hosts of the study may still cost. If the hosts of all ended trials waited, the sum
    would be a bound. Most of them have the next trial, so the pool is read where the bound could prevent a trial."""
    assert job.study, "the job of a study has the section"
    ended = {name: (run.ended, run.price or 0.0) for name, run in runs.items() if run.ended}
    bound = trials.reserve(ended, now)
    next_trials = (job.study.parallel + 1) * job.limits.dollars  # the last one is the retraining
    if not bound or row.dollars - row.spent - row.lent - bound >= next_trials:
        return bound
    return trials.waiting_dollars((host for host in ledger.pool() if host.study == study), now)


def _search_of(section: Study, decided: Turn) -> Search:
    row = decided.row
    return Search(
        metric=section.objective.metric,
        trials=row.trials,
        reported=row.reported,
        running=row.running,
        dollars=row.spent,
        most_dollars=row.dollars,
        best=row.best,
        value=row.value,
        retrained=row.retrained,
    )


def _start(yard: TurnSettings, study: RunRow, job: Job, decided: Turn, until: datetime) -> None:
    """Start the executions of the trials, and mark them as started. A trial whose execution exists is marked only."""
    assert job.study
    started = []
    for row in decided.to_start:
        mine = Trial(study=study.run, number=row.number, submitter=study.submitter or submitter.UNKNOWN)
        given = trials.input_of(
            job, job.study, row, mine, trials=decided.row.trials, until=until, now=clock()
        )
        states.start(yard.train_state_machine_arn, mine.run, given)
        started.append(replace(row, state=TrialState.STARTED, started=clock()))
    ledger = Ledger(yard.table_name)
    for write in started_rows(study.run, started):
        try:
            ledger.write(write)
        except AlreadyWrittenError:
            logger.info("%s: the end of the trial %s is reported already", study.run, write.sk)


def _invoke_signal(yard: TurnSettings, run: str, runs: Mapping[str, RunRow], now: datetime) -> None:
    """Ask signal to stop a trial and to end its warm hosts with the study. Patrol repeats the stop each minute."""
    attempt = runs[run].attempt if run in runs else 1
    event = Event(
        source=sources.PATROL,
        detail_type=StudyEnds.detail_type,
        time=now,
        detail=StudyEnds(run=run, attempt=attempt),
    )
    messages.invoke(f"{yard.yard}-signal", json.dumps(serialization.to_json(event)).encode())


def _end(ledger: Ledger, study: str, part: int, over: Over, now: datetime) -> None:
    """Answer the state Search. Without its token, the turn of Search itself does so."""
    token = ledger.require(study).waiting(part, (SEARCH,))
    if token is None:
        logger.info("%s: Search does not wait yet, or is answered", study)
        return
    ledger.write(event_row(study, note(over.end.value, over.reason, at=now)))
    if over.error:
        trouble = Trouble(error=over.error, reason=over.reason, final=True)
        attempts.fail(ledger, study, token, trouble, now)
    else:
        attempts.succeed(ledger, study, token, Finished(reason=over.reason, step=None), now)


def _execution_of(yard: TurnSettings, run: str) -> str:
    return f"{yard.train_state_machine_arn.replace(':stateMachine:', ':execution:')}:{run}"
