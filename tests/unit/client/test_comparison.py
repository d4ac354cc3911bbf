"""Comparisons of trials and of studies."""

from tests.unit.ui.canned import TRAINING, cloud
from tests.unit.ui.canned_study import BEST, ENDED, STUDY
from trainyard.client.comparison import Comparison, side_of
from trainyard.ui.pages.run import find_run


def compared(*runs: str) -> Comparison:
    yard = cloud().yard()
    return Comparison.of([side_of(find_run(yard, run)) for run in runs])


def test_a_study_is_compared_by_the_values_and_results_of_its_best_trial() -> None:
    found = compared(STUDY, f"{STUDY}-0003-trial")
    assert found.differences["program.args.optimizer"] == ("sgd", None)
    assert found.differences["program.args.lr"] == (0.0063096, 0.000015849)
    assert found.figures["objective"][0] == 0.9755
    assert found.figures["best"] == (f"{STUDY}-{BEST:04}-trial", None)
    assert found.figures["trials"] == (ENDED, None)
    assert found.figures["dollars"] == (0.252, None)
    assert found.figures["outcome"] == ("Searching", "Training")


def test_two_trials_differ_in_their_values_only() -> None:
    found = compared(f"{STUDY}-0001-trial", f"{STUDY}-{BEST:04}-trial")
    assert [*found.differences] == ["program.args.lr"]
    assert compared(TRAINING, TRAINING).differences == {}
