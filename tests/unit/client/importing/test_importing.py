"""Job files from the files of other launchers: each is accepted by `trainyard check`, and no item is lost silently."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.client.errors import NotImportable
from trainyard.client.importing.draft import Draft
from trainyard.client.importing.kinds import faults_of, imported, write

SKYPILOT = """
name: Mini_GPT
workdir: ./code
num_nodes: 2
resources:
  {accelerators: L4, any_of: [{use_spot: true}, {use_spot: false}], disk_size: 500, max_hourly_cost: 3, cpus: 4+}
envs: {EPOCHS: 10, lr: 0.1, WANDB_API_KEY: abc, BUCKET_NAME: sets, DATA_ROOT: null}
file_mounts:
  /data: s3://${BUCKET_NAME}/digits
  /ckpt: {name: results, mode: MOUNT, store: s3}
setup: |
  pip install -r requirements.txt
  cd tools
run: |
  torchrun --nnodes $SKYPILOT_NUM_NODES train.py --data /data/train --out /ckpt/ --not /database --lr $lr
"""
DSTACK = """
type: task
name: tune
nodes: 2
python: "3.12"
env: [HF_TOKEN, SEED=1, "KEYED=${{ secrets.keyed }}"]
commands: ["pip install -r requirements.txt", "torchrun --nnodes=$DSTACK_NODES_NUM train.py ${{ run.args }}"]
resources: {gpu: "L4,A10G:24GB..:1", shm_size: 16GB, disk: 200GB..}
spot_policy: auto
max_price: 1.5
max_duration: 1d
retry: {on_events: [no-capacity], duration: 2h}
"""
SLURM = r"""#!/bin/bash
#SBATCH --job-name=resnet
#SBATCH --nodes=2 --ntasks-per-node=4
#SBATCH --gres=gpu:4   # on each node
#SBATCH -t 1-12:30:00
#SBATCH -p gpu --mail-type=END
##SBATCH --mem=10G
module load cuda/12
if true; then
    module load nccl
fi
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun -n 8 --cpu-bind=none python -u train.py \
   --rank $SLURM_PROCID --site "$SLURM_CLUSTER_NAME"
"""
BATCH = {
    "jobDefinitionName": "Train",
    "type": "container",
    "parameters": {"epochs": "3"},
    "containerProperties": {
        "image": "images/train",
        "command": ["python", "train.py", "--epochs", "Ref::epochs"],
        "resourceRequirements": [{"type": "GPU", "value": "1"}, {"type": "VCPU", "value": "8"}],
        "environment": [{"name": "MODE", "value": "fast"}],
        "secrets": [{"name": "TOKEN_OF_HUB", "valueFrom": "arn:aws:ssm:::parameter/hub"}],
    },
    "retryStrategy": {"attempts": 3},
    "timeout": {"attemptDurationSeconds": 5400},
}
REQUEST = {
    "TrainingJobName": "digits-1",
    "AlgorithmSpecification": {"TrainingImage": "images/tf", "TrainingInputMode": "File"},
    "RoleArn": "arn:aws:iam::1:role/x",
    "HyperParameters": {
        "sagemaker_program": '"train.py"',
        "sagemaker_submit_directory": '"s3://code/digits/source.tar.gz"',
        "epochs": "10",
        "lr": "0.1",
        "model_dir": '"/opt/ml/model"',
    },
    "InputDataConfig": [
        {
            "ChannelName": "train",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://sets/digits/"}},
        }
    ],
    "OutputDataConfig": {"S3OutputPath": "s3://results/"},
    "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 100},
    "StoppingCondition": {"MaxRuntimeInSeconds": 7200, "MaxWaitTimeInSeconds": 10800},
    "EnableManagedSpotTraining": True,
    "Tags": [{"Key": "team", "Value": "vision"}],
}
ESTIMATOR = """
import sagemaker
from sagemaker.tensorflow import TensorFlow

bucket = "sets"
estimator = TensorFlow(
    entry_point="train.py",
    source_dir="code",
    role=sagemaker.get_execution_role(),
    instance_type="ml.g5.xlarge",
    instance_count=2,
    hyperparameters={"epochs": 10, "lr": 0.1, "seed": seed()},
    use_spot_instances=True,
    max_run=6 * 3600,
    distribution={"parameter_server": {"enabled": True}},
)
estimator.fit({"train": f"s3://{bucket}/digits/", "test": channels["test"]})
"""
BATCH_AI = {
    "properties": {
        "nodeCount": 2,
        "tensorFlowSettings": {
            "parameterServerCount": 1,
            "workerCount": 2,
            "pythonScriptFilePath": "$AZ_BATCHAI_INPUT_SCRIPT/replica.py",
            "masterCommandLineArgs": "--job_name=worker --ps_hosts=$AZ_BATCHAI_PS_HOSTS "
            "--task_index=$AZ_BATCHAI_TASK_INDEX --data_dir=$AZ_BATCHAI_INPUT_DATASET "
            "--output_dir=$AZ_BATCHAI_OUTPUT_MODEL",
            "parameterServerCommandLineArgs": "--job_name=ps --num_gpus=0",
        },
        "inputDirectories": [
            {"id": "DATASET", "path": "$AZ_BATCHAI_MOUNT_ROOT/external/digits"},
            {"id": "SCRIPT", "path": "$AZ_BATCHAI_MOUNT_ROOT/external/samples"},
        ],
        "outputDirectories": [
            {"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/external", "pathSuffix": "Models"}
        ],
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/external",
        "constraints": {"maxWallClockTime": "P1DT6H"},
    }
}
FILES = {
    "sky.yaml": SKYPILOT,
    "tune.dstack.yml": DSTACK,
    "resnet.sbatch": SLURM,
    "definition.json": json.dumps(BATCH),
    "request.json": json.dumps(REQUEST),
    "launch.py": ESTIMATOR,
    "job.json": json.dumps(BATCH_AI, indent=1),
}


def draft_of(folder: Path, name: str, text: str) -> Draft:
    (folder / name).write_text(text)
    return imported(folder / name)


def job_of(folder: Path, name: str) -> tuple[dict[str, Any], str]:
    """Return the imported job, and its notes as one text."""
    draft = draft_of(folder, name, FILES[name])
    text = draft.text("Imported.")
    return yaml.safe_load(text), " ".join(
        line.lstrip("# ") for line in text.splitlines() if line.startswith("#")
    )


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
    assert "containerProperties.image" in notes


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


@pytest.mark.parametrize(
    "name", ["sky.yaml", "tune.dstack.yml", "request.json", "definition.json", "job.json"]
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
        ("a.yaml", "greeting: hello", "is of no known kind; it has the keys greeting"),
        ("a.yaml", "- 1", "is not a mapping"),
        ("a.yaml", "run: a\nTrainingJobName: x\n", "several launchers: SkyPilot and SageMaker"),
        ("a.yaml", "run: a\nservice: {replicas: 2}", "describes a service"),
        ("a.dstack.yml", "type: dev-environment\nide: vscode", "describes a dev-environment"),
        ("a.dstack.yml", "type: task\nimage: x/y", "no `commands`"),
        ("a.py", "print(1)", "makes no estimator"),
        ("a.py", "print(", "is not Python"),
        ("a.py", "Estimator(image_uri='x', instance_type='ml.g5.xlarge')", "no entry point"),
        ("a.sh", "#!/bin/bash\n#SBATCH --nodes=1\n", "runs nothing"),
        (
            "a.json",
            '{"TrainingJobName": "x", "AlgorithmSpecification": {"TrainingImage": "y"}}',
            "names no program",
        ),
        ("a.json", '{"jobDefinitionName": "x", "eksProperties": {"podProperties": {}}}', "one of EKS's pods"),
        ("a.json", '{"jobDefinitionName": "x", "containerProperties": {"image": "y"}}', "no `command`"),
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
        imported(tmp_path / "a.yaml")


def test_an_existing_job_file_is_kept_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "job.yaml"
    target.write_text("mine")
    with pytest.raises(NotImportable, match="exists already"):
        write("new", target, force=False)
    assert target.read_text() == "mine"
    write("new", target, force=True)
    assert target.read_text() == "new"
