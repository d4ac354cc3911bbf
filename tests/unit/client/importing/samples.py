"""One file of each launcher, and their import."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.unit.client.importing.tuning_samples import TUNING_FILES
from trainyard.client.importing.draft import Draft
from trainyard.client.importing.kinds import import_file

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
priority: 80
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
        "containerSettings": {"imageSourceRegistry": {"image": "tensorflow/tensorflow:1.1.0-gpu"}},
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
    **TUNING_FILES,
}


def draft_of(folder: Path, name: str, text: str) -> Draft:
    (folder / name).write_text(text)
    return import_file(folder / name)


def job_of(folder: Path, name: str) -> tuple[dict[str, Any], str]:
    """Return the imported job, and its notes as one text."""
    draft = draft_of(folder, name, FILES[name])
    text = draft.text("Imported.")
    return yaml.safe_load(text), " ".join(
        line.lstrip("# ") for line in text.splitlines() if line.startswith("#")
    )
