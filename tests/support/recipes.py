"""Recipes of images, complete and faulty."""

from typing import Any

WHOLE = b"""
name: torchless
base: /aws/service/deeplearning/ami/x86_64/base/latest/ami-id
tensorflow: "~=2.21.0"
cuda: ">=12.5, <13"
system_packages: [htop, libsndfile1=1.2.2-1ubuntu5]
python_packages: ["pandas~=2.2", "soundfile[numpy] >=0.12"]
commands: ["systemctl disable apport", "echo a\\necho b"]
tests: [python -c 'import pandas']
root_gib: 250
builder: {instance_types: [g5.xlarge], market: on_demand, hours: 1.5}
"""

WRONG: list[tuple[str, Any, str]] = [
    ("nothing", None, "it is empty; a recipe has the keys name, base"),
    ("a list", ["gpu"], "it is not a mapping"),
    ("no name", {}, "name: is missing"),
    ("a name that a tag cannot have", {"name": "My GPU"}, "name: \"My GPU\" is not a name of 1 to 30"),
    ("a key that does not exist", {"name": "x", "packages": ["a"]}, "packages: unknown key"),
    ("a base that is neither", {"name": "x", "base": "ubuntu"}, "base: \"ubuntu\" is not an AMI's id"),
    ("a version without a relation", {"name": "x", "tensorflow": "2.21"}, "tensorflow: \"2.21\" is not a version"),
    ("a version that YAML made a number", {"name": "x", "cuda": 12.5}, "cuda: found the number 12.5"),
    ("packages that are a text", {"name": "x", "system_packages": "htop"}, "system_packages: found \"htop\"; a list"),
    ("a package that is an option", {"name": "x", "system_packages": ["-y"]}, "system_packages[0]: \"-y\" is not"),
    ("a package that is two", {"name": "x", "system_packages": ["a1; rm"]}, "system_packages[0]"),
    ("another index", {"name": "x", "python_packages": ["--index-url=x"]}, "python_packages[0]"),
    ("a package twice", {"name": "x", "python_packages": ["a", "a"]}, "is in the list twice"),
    ("a command of nothing", {"name": "x", "commands": [""]}, "commands[0]: \"\" is not a line for the shell"),
    ("a test that is a number", {"name": "x", "tests": [1]}, "tests[0]: found the number 1"),
    ("a disk too small for a base image", {"name": "x", "root_gib": 8}, "root_gib: found the number 8"),
    ("an unknown builder", {"name": "x", "builder": {"instance_types": ["m5.large"]}}, "instance_types[0]"),
    ("a market of ours only", {"name": "x", "builder": {"market": "cheap"}}, "builder.market: found \"cheap\""),
    ("a builder for weeks", {"name": "x", "builder": {"hours": 100}}, "builder.hours: found the number 100"),
    ("a schedule", {"name": "x", "schedule": "rate(1 day)"}, "schedule: unknown key"),
]  # fmt: skip
