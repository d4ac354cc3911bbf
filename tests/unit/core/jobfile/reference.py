"""Generate schemas and tables of job files, recipes and execution inputs from the declarations of their keys.

`python -m tests.unit.core.jobfile.reference` (part of `make format`) writes them: trainyard/*.schema.json, the table
in docs/job-file.md and those in docs/reference/state-machines.md.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lambdas.core.images.dev_host import DevHostRequest
from lambdas.core.images.retention import RetireRequest
from lambdas.core.images.snapshot import SnapshotRequest
from trainyard.core.jobfile.check import JobSource
from trainyard.core.jobfile.program_command import LAUNCHERS
from trainyard.core.jobfile.recipe import BakeRequest, Recipe
from trainyard.core.jobfile.rules import STARTS
from trainyard.core.model.job import Job
from trainyard.core.model.program import PROGRAMS, SHIPPED
from trainyard.protocol.cluster import Strategy
from trainyard.values.fields import Key, keys, plain
from trainyard.values.mappings import Entries, Part, Record

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "job-file.md"
ON_SEVERAL = [each.value for each in Strategy if each.has_several_hosts]
ON_ONE_HOST = [each.value for each in Strategy if not each.has_several_hosts]
BEGIN, END = "<!-- keys: begin -->", "<!-- keys: end -->"
INPUTS_PAGE = ROOT / "docs" / "reference" / "state-machines.md"
INPUTS_BEGIN, INPUTS_END = "<!-- inputs: begin -->", "<!-- inputs: end -->"
INPUTS = {
    "train": JobSource,
    "study": JobSource,
    "bake": BakeRequest,
    "snapshot": SnapshotRequest,
    "dev-host": DevHostRequest,
    "retire": RetireRequest,
}
HEAD = ("| key | default | allowed | meaning |", "|---|---|---|---|")


def schemas() -> dict[Path, str]:
    """Return the text of every schema in the package."""
    job = Record(Job).schema() | {"title": "A Trainyard job file", "allOf": TOGETHER}
    job["required"] = [name for name in job["required"] if name != "program"]  # a batch has none
    recipe = Record(Recipe).schema() | {"title": "The recipe of a Trainyard image"}
    return {
        ROOT / "trainyard" / f"{name}.schema.json": _text(each)
        for name, each in (("job", job), ("recipe", recipe))
    }


def _text(schema: dict[str, Any]) -> str:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(head | schema, indent=1) + "\n"


def given(section: str, key: str, value: Any) -> dict[str, Any]:
    """Return the schema of a job with a key of this schema in this section."""
    inside = {"type": "object", "required": [key], "properties": {key: value}}
    return {"required": [section], "properties": {section: inside}}


SOMETHING = {"not": {"type": "null"}}
SERVERS = given("cluster", "strategy", {"const": "parameter_server"})
SEVERAL_HOSTS = {
    "anyOf": [
        given("cluster", "strategy", {"enum": ON_SEVERAL}),
        {
            **given("cluster", "workers", {"type": ["integer", "object"], "minimum": 2}),
            "not": given("cluster", "strategy", SOMETHING),
        },
    ]
}
EVALUATOR = given("cluster", "evaluator", {"const": True})
SHARED_OUT = {"type": "object", "required": ["sharding"], "properties": {"sharding": {"const": "file"}}}
BATCH = {"required": ["predict"], "properties": {"predict": SOMETHING}}
TOGETHER = [
    {"if": BATCH, "then": {"not": {"required": ["program"]}}, "else": {"required": ["program"]}},
    # rules between keys, as far as a schema can state them; core/jobfile/rules.py has the sentences
    {
        "if": SERVERS,
        "then": given("cluster", "parameter_servers", {"type": "integer", "minimum": 1}),
        "else": {
            "not": {
                "anyOf": [
                    given("cluster", "parameter_servers", {"not": {"enum": [0, None]}}),
                    given("cluster", "chief", SOMETHING),
                    given(
                        "hardware",
                        "cpu_roles",
                        {"type": "array", "contains": {"not": {"const": "evaluator"}}},
                    ),
                ]
            }
        },
    },
    {
        "if": EVALUATOR,
        "then": SEVERAL_HOSTS
        | {
            "not": given(
                "program",
                "command",
                {"type": "array", "minItems": 1, "prefixItems": [{"enum": [*LAUNCHERS]}]},
            )
        },
    },
    {
        "if": {"not": {"anyOf": [SERVERS, EVALUATOR]}},
        "then": {
            "not": {
                "anyOf": [
                    given("hardware", "cpu_instance_types", SOMETHING),
                    given("hardware", "cpu_roles", SOMETHING),
                ]
            }
        },
    },
    {
        "if": given("cluster", "strategy", {"enum": ON_ONE_HOST}),
        "then": {"not": given("cluster", "workers", {"minimum": 2})},
    },
    {
        "if": {"not": SEVERAL_HOSTS},
        "then": {"properties": {"data": {"additionalProperties": {"not": SHARED_OUT}}}},
    },
    {
        "if": given("cluster", "workers", {"type": "object"}),
        "then": {
            "not": SERVERS,
            "properties": {"data": {"additionalProperties": {"not": SHARED_OUT}}},
        },
    },
    {"oneOf": [given("program", each, SOMETHING) for each in STARTS]},
    {
        "if": {"not": given("program", "source", SOMETHING)},
        "then": {
            "not": {
                "anyOf": [
                    given("program", "module", {"not": {"enum": [*map(SHIPPED.__add__, PROGRAMS), None]}}),
                    given("program", "requirements", SOMETHING),
                ]
            }
        },
    },
    {
        "if": given("after", "hosts", {"const": "stop"}),
        "then": given("hardware", "market", {"const": "on_demand"}),
    },
    {
        "if": given("hardware", "cpu_instance_types", {"maxItems": 0, "type": "array"}),
        "then": {"not": given("hardware", "cpu_roles", {"minItems": 1, "type": "array"})},
    },
    {
        "if": given("hardware", "cpu_instance_types", {"minItems": 1, "type": "array"}),
        "then": {"not": given("hardware", "cpu_roles", {"maxItems": 0, "type": "array"})},
    },
]


def table() -> str:
    """Return the table of the job file, one line a key."""
    return "\n".join([BEGIN, *HEAD, *_lines(Job, "", yards=False), END])


def inputs() -> str:
    """Return one table for each state machine."""
    tables = (
        "\n".join([f"## {name}\n", *HEAD, *_lines(request, "", yards=False), ""])
        for name, request in INPUTS.items()
    )
    return "\n".join([INPUTS_BEGIN, *tables, INPUTS_END])


def page(text: str, made: str) -> str:
    """Return the page with `made` instead of the part between the first and the last line of `made`."""
    begin, end = made.partition("\n")[0], made.rpartition("\n")[2]
    return f"{text.partition(begin)[0]}{made}{text.partition(end)[2]}"


def _lines(section: type, path: str, *, yards: bool) -> Iterator[str]:
    for name, each in keys(section).items():
        if isinstance(each.kind, Record):
            yield from _lines(each.kind.of, f"{path}{name}.", yards=isinstance(each.kind, Part))
            continue
        inner = each.kind.each if isinstance(each.kind, Entries) else None
        default = "the yard's" if yards else _default(each)
        allowed = each.kind.words.replace("|", "\\|")
        yield f"| `{path}{name}` | {default} | {allowed} | {each.meaning} |"
        if isinstance(inner, Record):
            yield from _lines(inner.of, f"{path}{name}.NAME.", yards=False)


def _default(each: Key) -> str:
    if each.required or each.usual:
        return "required" if each.required else each.usual
    default = plain(each.default)
    return f"`{json.dumps(default).replace(chr(34), '')}`" if default not in (None, [], {}) else "none"


def main() -> None:
    """Write the tables into the pages, and the schemas."""
    PAGE.write_text(page(PAGE.read_text(), table()))
    INPUTS_PAGE.write_text(page(INPUTS_PAGE.read_text(), inputs()))
    for path, schema in schemas().items():
        path.write_text(schema)


if __name__ == "__main__":
    main()
