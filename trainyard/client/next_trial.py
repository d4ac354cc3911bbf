"""The next trial of a study, and why it has not started, for users."""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.client.trials import Trials
from trainyard.command_line import command_line
from trainyard.core.model.study import Sampler, Study
from trainyard.core.model.study_money import dollars_for_a_trial
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.study import DrawnBy, TrialState
from trainyard.values.quantities import dollars, format_count


def describe_next(section: Study, study: RunRow, trials: Trials, runs: Mapping[int, RunRow]) -> str:
    """Return a sentence about the next trial; empty once the study has ended. `runs` are the rows of the open trials
    that have a run."""
    row, running = trials.row, [each for each in trials.trials if each.state.is_open]
    if study.ended:
        return ""
    if study.stopping:
        return f"No further trial starts: {study.stopped_by or 'a user'} has stopped the study."
    for each in running:
        run = runs.get(each.number)
        if run and run.waiting:
            return f"Trial {each.number} waits for {run.waiting.awaited}: {run.waiting.reason}."
    asked = next((each.number for each in running if each.state is TrialState.ASKED), None)
    if asked:
        return f"Trial {asked} starts now."
    if any(each.drawn_by is DrawnBy.RETRAIN for each in running):
        return f"Trial {running[-1].number} trains with the best values once more. No further trial starts."
    if row.reported + len(running) >= row.trials:
        return f"No further trial starts: all {row.trials} have ended or are running."
    after = f"Trial {len(trials.trials) + 1}"
    is_proven = any(each.state.is_answer for each in trials.trials) or any(
        run.objective for run in runs.values()
    )
    if section.sampler is Sampler.NONE and not trials.waiting:
        point = f"{next(iter(section.parameters))}=VALUE"
        return (
            f"{after} waits for a point that a user adds: {command_line('study', 'add', trials.study, point)}"
        )
    if running and not is_proven:
        metric = section.objective.metric
        return f"{after} starts when trial {running[0].number} has reported {metric}, or has ended."
    if len(running) >= section.parallel:
        return f"{after} starts when one of the {format_count(len(running), 'running trial')} ends."
    left, needed = row.dollars - row.spent - row.lent, dollars_for_a_trial(trials.trials)
    if running and left < needed:
        return (
            f"{after} needs {dollars(needed)} and {dollars(max(left, 0.0))} are free: it starts if the running trials, "
            f"which hold {dollars(row.lent)}, cost less."
        )
    return f"{after} starts within a minute."
