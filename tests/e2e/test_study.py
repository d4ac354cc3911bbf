"""A study of three trials, two at once: one loses its host. The best one is named and keeps its checkpoint, the study
continues with a fourth trial, and no host is left."""

from typing import Any

from tests.e2e.runs import Runs

STUDY: dict[str, Any] = {
    "minimize": "loss",
    "parameters": {"args.steps": {"integers": [30, 90]}},
    "first": [{"args.steps": 35}, {"args.steps": 80}],
    "trials": 3,
    "parallel": 2,
    "pruner": "none",
    "seed": 7,
    "limits": {"dollars": 20, "hours": 1},
}


def test_a_study_finds_the_best_trial_and_leaves_no_host(runs: Runs) -> None:
    """The loss of the quick program falls with its steps, so the trial with the most steps is the best."""
    job = runs.job(
        "tune",
        program={"args": {"step-delay": 0.05, "first-delay": 0.2}},
        cluster={"strategy": "single", "workers": 1},
        study=STUDY,
    )
    study = runs.begun(runs.upload(job).run, "study")
    names = [f"{study.id}-{number:04d}-trial" for number in (1, 2, 3)]
    second = runs.yard.run(names[1])
    runs.until("a checkpoint of the second trial", lambda: runs.checkpoint_of(second))
    runs.yard.session.client("ec2").terminate_instances(InstanceIds=[runs.host_of(second, "chief")])
    runs.finish(study)
    assert study.succeeded, study.why()
    listed = {each.id: each for each in runs.yard.list()}
    assert [name for name, each in listed.items() if each.study == study.id] == names[::-1]
    steps = {name: runs.yard.run(name).json("job.json")["program"]["args"]["steps"] for name in names}
    assert [steps[name] for name in names[:2]] == [35, 80]
    assert len({*steps.values()}) == len(names), "no two trials are equal"
    assert (study.summary["best"], study.summary["trials"]) == (max(names, key=steps.__getitem__), len(names))
    assert len(second.summary["attempts"]) == 2, "a trial handles the loss of its host itself"
    assert 0 < study.summary["dollars"] <= STUDY["limits"]["dollars"]
    ended = runs.yard.study(study.id)
    kept = [name for name in names if runs.checkpoint_of(runs.yard.run(name))]
    assert kept == [ended.best().run.id]
    again = ended.more(trials=1, dollars=5)
    runs.finish(again)
    assert [trial.number for trial in again.trials] == [1, 2, 3, 4]
    assert (again.id, again.summary["trials"], again.succeeded) == (study.id, 4, True)
    assert again.trials[-1].values["args.steps"] not in steps.values()
    runs.until("the end of all hosts", lambda: runs.living() == [])
