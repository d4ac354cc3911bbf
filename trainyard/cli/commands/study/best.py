"""Show the best trial of a study."""

from __future__ import annotations

from trainyard.cli.arguments import StudyId
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard study best digits", "trainyard study best @last -o json")
def best(options: Options, study: StudyId) -> None:
    """Show the best trial of a study: its values, result, run and cost."""
    from trainyard.cli import runs
    from trainyard.cli.output import study as shown
    from trainyard.cli.output import terminal
    from trainyard.command_line import command_line

    found = runs.find_study(options.find(), study)
    winner, retrained, metric = found.best(), found.retrained, found.metric
    if options.is_json:
        terminal.answer(shown.best_as_json(winner, retrained, metric))
        return
    for line in shown.best_in_lines(winner, retrained, metric):
        terminal.console.print(line, markup=False)
    if not options.quiet:
        terminal.hint(f"Its model: {command_line('get', (retrained or winner).run.id)}")
