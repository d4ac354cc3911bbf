"""Job files from the files of other launchers: each is accepted by `trainyard check`, and no item is lost silently."""

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.client.importing.samples import ESTIMATOR, FILES, draft_of, job_of
from trainyard.client.errors import NotImportable
from trainyard.client.importing.kinds import faults_of, import_file, write


@pytest.mark.parametrize("name", FILES)
def test_an_imported_job_file_has_no_fault(tmp_path: Path, name: str) -> None:
    draft = draft_of(tmp_path, name, FILES[name])
    target = tmp_path / "imported.yaml"
    write(draft.text("Imported."), target, force=False)
    for folder in ("code", "samples", "."):
        (tmp_path / folder).mkdir(exist_ok=True)
        for script in ("train.py", "replica.py"):
            (tmp_path / folder / script).write_text("print('step 1 loss 0.5')\n")
    assert faults_of(target) == []


def test_a_skypilot_task(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "sky.yaml")
    assert job["name"] == "mini-gpt"
    assert job["cluster"] == {"strategy": "multi_worker", "workers": 2}
    assert job["data"] == {"data": "s3://sets/digits/"}
    assert job["hardware"] == {
        "instance_types": ["g6.xlarge", "g6.2xlarge"],
        "market": "spot_then_on_demand",
        "disk_gib": 500,
        "max_dollars_per_hour": 3.0,
    }
    assert job["program"]["source"] == "./code"
    assert job["program"]["secrets"] == {"WANDB_API_KEY": "wandb-api-key"}
    shell = job["program"]["shell"]
    assert "export lr=0.1\n" in shell
    assert "cd tools\n) || exit\n" in shell, "setup and run are two shells in SkyPilot"
    assert "--data $TRAINYARD_DATA_DATA/train --out $TRAINYARD_CHECKPOINTS/ --not /database" in shell
    assert "abc" not in json.dumps(job), "a secret's value is never copied"
    assert "envs.DATA_ROOT: the file has no value" in notes


def test_a_dstack_task(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "tune.dstack.yml")
    assert job["hardware"]["instance_types"][0] == "g6.xlarge"
    assert job["hardware"]["max_dollars_per_hour"] == 3.0, "of both hosts together"
    assert job["limits"] == {"hours": 24, "wait_minutes": 120.0}
    assert job["program"]["secrets"] == {"HF_TOKEN": "hf-token", "KEYED": "keyed"}
    assert 'train.py "$@"' in job["program"]["shell"]
    assert job["priority"] == 80
    assert "line 5, python" in notes
    assert "resources.shm_size" in notes


def test_a_slurm_script(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "resnet.sbatch")
    assert job["limits"] == {"hours": 36.5}
    assert job["hardware"]["instance_types"][0] == "g4dn.12xlarge"
    shell = job["program"]["shell"]
    assert "python -u train.py     --rank $SLURM_PROCID" in shell
    assert "srun" not in shell
    assert "    : # module load nccl\n".strip() in shell, "a block of `if` is never empty"
    assert "export SLURM_PROCID=$RANK\n" in shell
    for item in ("partition", "mail-type", "ntasks-per-node", "module load cuda/12", "SLURM_CLUSTER_NAME"):
        assert item in notes


def test_a_job_definition_of_aws_batch(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "definition.json")
    assert job["program"]["command"] == ["python", "train.py", "--epochs", "3"]
    assert job["program"]["environment"] == {"MODE": "fast"}
    assert job["limits"] == {"hours": 1.5, "restarts": 2}
    assert job["hardware"]["instance_types"][0] == "g4dn.2xlarge", "with 8 processors"
    assert job["program"]["container"] == "images/train"
    assert "source" not in job["program"], "the program is in the image"
    assert "containerProperties.image" in notes


@pytest.mark.parametrize(
    ("words", "command", "lines"),
    [
        (None, None, None),
        (["sh", "-c", "echo ${HOME}; date"], ["sh", "-c", "echo $${HOME}; date"], None),
        (["sh", "-c", "echo $AWS_BATCH_JOB_ID"], None, "AWS_BATCH_JOB_ID=$TRAINYARD_RUN"),
    ],
)
def test_the_words_of_a_container_of_aws_batch(
    tmp_path: Path, words: list[str] | None, command: list[str] | None, lines: str | None
) -> None:
    inside = {"image": "nvcr.io/a/b:1", "repositoryCredentials": {"credentialsParameter": "arn:aws:x"}}
    text = json.dumps({"jobDefinitionName": "x", "containerProperties": inside | {"command": words or []}})
    draft = draft_of(tmp_path, "a.json", text)
    program = draft.job["program"]
    assert program["container"] == {"image": "nvcr.io/a/b:1", "login": "registry"}
    assert program.get("command") == command
    assert (lines or "") in program.get("shell", "")
    assert "source" not in program


@pytest.mark.parametrize(
    ("task", "container"),
    [
        ({"image_id": "docker:team/train:v1"}, {"image": "team/train:v1", "entrypoint": False}),
        ({"image_id": {"us-east-1": "docker:a/b:1"}}, {"image": "a/b:1", "entrypoint": False}),
        ({"any_of": [{"image_id": "docker:a/b:1"}]}, {"image": "a/b:1", "entrypoint": False}),
        ({"image_id": "ami-0b5eacf05cf9e0001"}, None),
        ({}, None),
    ],
)
def test_the_container_of_a_skypilot_task(tmp_path: Path, task: object, container: object) -> None:
    text = yaml.safe_dump({"run": "python train.py", "resources": task})
    draft = draft_of(tmp_path, "a.yaml", text)
    assert draft.job["program"].get("container") == container
    assert draft.job["program"]["shell"].endswith("python train.py\n")


def test_the_login_of_a_skypilot_task_is_a_secret_of_the_yard(tmp_path: Path) -> None:
    login = {"SKYPILOT_DOCKER_USERNAME": "me", "SKYPILOT_DOCKER_SERVER": "nvcr.io"}
    task = {"run": "nvidia-smi", "envs": login, "secrets": {"SKYPILOT_DOCKER_PASSWORD": "hidden"}}
    for image in ("a/b:1", "nvcr.io/a/b:1"):
        resources = {"resources": {"image_id": f"docker:{image}"}}
        draft = draft_of(tmp_path, "a.yaml", yaml.safe_dump(task | resources))
        container = {"image": "nvcr.io/a/b:1", "entrypoint": False, "login": "registry"}
        assert draft.job["program"] == {"container": container, "shell": "set +e +o pipefail\nnvidia-smi\n"}
        assert any("/trainyard/secrets/registry" in str(note) for note in draft.notes)


@pytest.mark.parametrize(
    ("task", "program"),
    [
        ({"image": "a/b:1"}, {"container": "a/b:1"}),
        (
            {"image": "a/b:1", "commands": ["date"]},
            {"container": {"image": "a/b:1", "entrypoint": False}, "shell": "date\n", "source": "./"},
        ),
        (
            {"image": "nvcr.io/a/b:1", "registry_auth": {"username": "me", "password": "hidden"}},
            {"container": {"image": "nvcr.io/a/b:1", "login": "registry"}},
        ),
    ],
)
def test_the_container_of_a_dstack_task(
    tmp_path: Path, task: dict[str, object], program: dict[str, object]
) -> None:
    draft = draft_of(tmp_path, "a.dstack.yml", yaml.safe_dump({"type": "task", **task}))
    assert draft.job["program"] == program
    assert "hidden" not in draft.text("Imported.")


@pytest.mark.parametrize("priority", [0, 100, 101, -1, 7.5])
def test_a_priority_of_dstack_is_kept_or_reported(tmp_path: Path, priority: float) -> None:
    task = {"type": "task", "commands": ["date"], "priority": priority}
    draft = draft_of(tmp_path, "a.dstack.yml", yaml.safe_dump(task))
    is_kept = priority in {0, 100}
    assert draft.job.get("priority") == (priority if is_kept else None)
    assert (f"found {priority}" in draft.text("Imported.")) is not is_kept


def test_a_training_job_of_sagemaker(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "request.json")
    assert job["program"]["source"] == "s3://code/digits/source.tar.gz"
    assert job["program"]["args"] == {"epochs": 10, "lr": 0.1, "model_dir": "/opt/ml/model"}
    assert job["program"]["environment"]["SM_CHANNEL_TRAIN"] == "${data.train}"
    assert job["limits"] == {"hours": 2, "wait_minutes": 60.0}
    assert job["labels"] == {"team": "vision"}
    assert "/opt/ml/model is a path of SageMaker's" in notes


def test_an_estimators_call(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "launch.py")
    assert job["cluster"] == {"strategy": "parameter_server", "workers": 2, "parameter_servers": 2}
    assert job["data"] == {"train": "s3://sets/digits/"}
    assert job["hardware"]["market"] == "spot"
    assert "hyperparameters.seed: `seed()` is not literal" in notes
    assert "inputs.test" in notes


def test_a_job_of_batch_ai(tmp_path: Path) -> None:
    job, notes = job_of(tmp_path, "job.json")
    assert job["cluster"] == {
        "strategy": "parameter_server",
        "workers": 2,
        "parameter_servers": 1,
        "chief": "worker",
    }
    assert job["program"]["source"] == "./samples"
    assert job["program"]["command"][2:] == [
        "--job_name=${job_name}",
        "--ps_hosts=${ps_hosts}",
        "--task_index=${task_index}",
        "--data_dir=${data.dataset}",
        "--output_dir=${model}",
    ]
    assert job["limits"] == {"hours": 30}
    assert "this one had: --job_name=ps --num_gpus=0" in notes
    assert job["program"]["container"] == "tensorflow/tensorflow:1.1.0-gpu"
    assert "trainyard yard deploy -c registries=docker.io" in notes


@pytest.mark.parametrize(
    ("registry", "container", "note"),
    [
        ({"serverUrl": "https://nvcr.io", "image": "a/b:1"}, "nvcr.io/a/b:1", "registries=nvcr.io"),
        ({"image": "a/b:1", "serverUrl": "index.docker.io"}, "a/b:1", "registries=docker.io"),
        (
            {"image": "a/b:1", "credentials": {"username": "me", "password": "x"}},
            {"image": "a/b:1", "login": "registry"},
            "--name /trainyard/secrets/registry",
        ),
        ({"image": "A:b:c"}, None, "write program.container yourself"),
        ({"image": ["a"]}, None, "expected a text"),
    ],
)
def test_the_container_of_a_job_of_batch_ai(
    tmp_path: Path, registry: dict[str, object], container: object, note: str
) -> None:
    values = json.loads(FILES["job.json"])
    values["properties"]["containerSettings"]["imageSourceRegistry"] = registry
    draft = draft_of(tmp_path, "job.json", json.dumps(values))
    assert draft.job["program"].get("container") == container
    assert any(note in str(each) for each in draft.notes), draft.notes
    assert "password: x" not in str(draft.job)


@pytest.mark.parametrize(
    "name", ["sky.yaml", "tune.dstack.yml", "request.json", "definition.json", "job.json", "tuning.json"]
)
def test_an_item_without_a_counterpart_is_reported_by_its_path(tmp_path: Path, name: str) -> None:
    values = yaml.safe_load(FILES[name])
    values["someNewKey"] = {"below": [1, 2]}
    draft = draft_of(tmp_path, name, json.dumps(values) if name.endswith(".json") else yaml.safe_dump(values))
    assert "someNewKey" in [note.item for note in draft.notes]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.yaml", "a: [", "is not YAML"),
        ("a.json", '{"a": }', "is not JSON: Expecting value (line 1)"),
        ("a.yaml", "{% if x %}run: a{% endif %}", "is a template: line 1"),
        ("a.yaml", "run: a\n---\nrun: b\n", "has 2 documents"),
        ("a.yaml", "greeting: hello", "is of an unknown kind; it has the keys greeting"),
        ("a.yaml", "- 1", "is not a mapping"),
        (
            "a.yaml",
            "run: a\nTrainingJobName: x\n",
            "several launchers: SkyPilot (run in line 1) and SageMaker",
        ),
        ("a.yaml", "run: a\nservice: {replicas: 2}", "describes a service"),
        ("a.dstack.yml", "type: dev-environment\nide: vscode", "describes a dev-environment"),
        ("a.dstack.yml", "type: task\npython: '3.12'", "neither `commands` nor an `image`"),
        ("a.py", "print(1)", "creates no SageMaker estimator"),
        ("a.py", "print(", "is not Python"),
        ("a.py", "Estimator(image_uri='x', instance_type='ml.g5.xlarge')", "no entry point"),
        ("a.sh", "#!/bin/bash\n#SBATCH --nodes=1\n", "runs nothing"),
        (
            "a.json",
            '{"TrainingJobName": "x", "AlgorithmSpecification": {"TrainingImage": "y"}}',
            "names no program",
        ),
        (
            "a.json",
            '{"jobDefinitionName": "x", "eksProperties": {"podProperties": {}}}',
            "describes pods of EKS",
        ),
        (
            "a.json",
            '{"jobDefinitionName": "x", "containerProperties": {}}',
            "neither an `image` nor a `command`",
        ),
    ],
)
def test_what_is_no_job_of_another_launcher_is_refused_with_its_reason(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    with pytest.raises(NotImportable) as refused:
        draft_of(tmp_path, name, text)
    assert reason in refused.value.what
    assert refused.value.next_step


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NotImportable, match="not UTF-8"):
        import_file(tmp_path / "a.yaml")


def test_an_existing_job_file_is_kept_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "job.yaml"
    target.write_text("mine")
    with pytest.raises(NotImportable, match="exists already"):
        write("new", target, force=False)
    assert target.read_text() == "mine"
    write("new", target, force=True)
    assert target.read_text() == "new"


def test_an_estimators_call_in_a_notebook(tmp_path: Path) -> None:
    code = [["!pip install sagemaker\n", "%matplotlib inline"], ESTIMATOR.splitlines(keepends=True)]
    cells = [{"cell_type": "markdown", "source": ["# Train\n"]}]
    cells += [{"cell_type": "code", "source": each} for each in (*code, ["%%bash\n", "cat <<END"])]
    text = json.dumps({"cells": cells, "nbformat": 4}, indent=1)
    draft = draft_of(tmp_path, "train.ipynb", text)
    assert draft.job["cluster"]["parameter_servers"] == 2
    [line] = [note.line for note in draft.notes if note.item == "hyperparameters.seed"]
    assert line
    assert "seed()" in text.splitlines()[line - 1]


@pytest.mark.parametrize(
    ("inputs", "data", "notes"),
    [
        ("TrainingInput('s3://sets/a/')", {"training": "s3://sets/a/"}, 1),
        ("TrainingInput(s3_data='s3://sets/a/')", {"training": "s3://sets/a/"}, 1),
        ("FileSystemInput(file_system_id='fs-1', directory_path='/x')", None, 1),
    ],
)
def test_the_input_of_an_estimator_may_be_one_channel(
    tmp_path: Path, inputs: str, data: dict[str, str] | None, notes: int
) -> None:
    draft = draft_of(tmp_path, "a.py", f"e = TensorFlow(entry_point='a.py')\ne.fit({inputs})\n")
    assert draft.job.get("data") == data
    assert [note.line for note in draft.notes if note.item.startswith("inputs")] == [2] * notes
