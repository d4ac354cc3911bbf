"""Keys of other tools and keys in a wrong section, with their location in a job file."""

from collections import Counter

from trainyard.core.model.job import Job
from trainyard.values.fields import keys
from trainyard.values.mappings import Record

OTHER_TOOLS = {
    "env": "program.environment",
    "envs": "program.environment",
    "env_vars": "program.environment",
    "environment_variables": "program.environment",
    "script": "program.command, as in [python, train.py]",
    "entrypoint": "program.command, as in [python, train.py]",
    "entry_point": "program.command, as in [python, train.py]",
    "cmd": "program.command, as in [python, train.py]",
    "commands": "program.shell, lines that bash runs",
    "run": "program.shell, lines that bash runs, or program.command",
    "setup": "program.requirements, for packages, or the first lines of program.shell",
    "workdir": "program.source, as in ./src",
    "working_dir": "program.source, as in ./src",
    "code": "program.source, as in ./src",
    "source_dir": "program.source, as in ./src",
    "arguments": "program.args",
    "hyperparameters": "program.args",
    "parameters": "program.args, or study.parameters for values to search",
    "search_space": "study.parameters",
    "objective": "study.maximize or study.minimize",
    "n_trials": "study.trials",
    "num_samples": "study.trials",
    "max_concurrent": "study.parallel",
    "dependencies": "program.requirements, a file as in requirements.txt",
    "packages": "program.requirements, a file as in requirements.txt",
    "pip": "program.requirements, a file as in requirements.txt",
    "conda": "program.requirements, a file as in requirements.txt",
    "file_mounts": "data",
    "inputs": "data",
    "datasets": "data",
    "volumes": "data",
    "ami": "hardware.image",
    "docker": "hardware.image, an image of EC2; containers are not run",
    "container": "hardware.image, an image of EC2; containers are not run",
    "resources": "hardware",
    "instance_type": "hardware.instance_types, a list",
    "instances": "hardware.instance_types, a list",
    "accelerators": "hardware.instance_types, a list as in [g6.xlarge]",
    "gpu": "hardware.instance_types, a list as in [g6.xlarge]",
    "gpus": "hardware.instance_types, a list as in [g6.xlarge]",
    "use_spot": "hardware.market, as in spot_then_on_demand",
    "spot": "hardware.market, as in spot_then_on_demand",
    "spot_policy": "hardware.market, as in spot_then_on_demand",
    "max_price": "hardware.max_dollars_per_hour",
    "disk_size": "hardware.disk_gib",
    "disk": "hardware.disk_gib",
    "num_nodes": "cluster.workers",
    "nodes": "cluster.workers",
    "instance_count": "cluster.workers",
    "distribution": "cluster.strategy",
    "timeout": "limits.hours",
    "max_duration": "limits.hours",
    "max_run": "limits.hours",
    "budget": "limits.dollars",
    "retry": "limits.restarts",
    "retries": "limits.restarts",
    "max_retries": "limits.restarts",
    "tags": "labels",
}
"""The location in a job file of each key of another tool."""


def locations() -> dict[str, str]:
    """Return the location of each key of another tool, and of each key that exists in one section only."""
    sections = {name: each.kind for name, each in keys(Job).items() if isinstance(each.kind, Record)}
    inside = [(key, name) for name, kind in sections.items() for key in keys(kind.of)]
    counts = Counter(key for key, _ in inside)
    own = {
        key: f"{name}.{key}"
        for key, name in inside
        if counts[key] == 1 and key not in keys(Job) and key != "parameters"
    }
    return OTHER_TOOLS | own | {name: name for name in keys(Job)}
