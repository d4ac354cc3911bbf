"""The search space of a script for Optuna or Ray Tune as a study, as far as it is literal. The script is never run."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from trainyard.client.importing import study
from trainyard.client.importing.calls import UNKNOWN, arguments_of, call_name, lines_of, value_of
from trainyard.client.importing.draft import Draft
from trainyard.client.importing.foreign import Foreign, Keys, Note

PROGRAM = (
    "each trial is one run of the program: it takes the parameters as arguments (--NAME VALUE), trains once, and "
    "writes metrics.json; remove this search from it"
)
NO_HOSTS = "the file names no hosts; hardware.instance_types keeps its default"


@dataclass
class Script:
    """The calls of a script: their values by the name of the call, with their lines."""

    constants: Mapping[str, ast.expr]
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[Keys, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def foreign(self) -> Foreign:
        return Foreign(self.values, self.lines, self.notes)

    def read(self, call: ast.Call, names: Sequence[str], key: str) -> None:
        """Record the arguments of the first call under `key`. `names` are its positional parameters."""
        if key in self.values:
            self.notes.append(Note(call.lineno, key, "only the first call counts"))
            return
        given = [*zip(names, call.args, strict=False), *arguments_of(call, self.constants)]
        self.values[key] = {name: self.value(each) for name, each in given} or {"": call_name(call)}
        self.lines[(key,)] = call.lineno
        for name, each in given:
            self.lines.update(lines_of((key, name), each))

    def value(self, node: ast.expr) -> Any:
        """Return a value. An object of a class is a mapping of its keywords and of its class under `class`."""
        found = self.constants.get(node.id, node) if isinstance(node, ast.Name) else node
        if isinstance(found, ast.Call) and (name := call_name(found))[:1].isupper():
            keywords = {
                word: value_of(each, self.constants) for word, each in arguments_of(found, self.constants)
            }
            unnamed = {
                f"argument {number}": value_of(each, self.constants) for number, each in enumerate(found.args)
            }
            return {"class": name, **unnamed, **keywords}
        return value_of(node, self.constants)


def calls_in(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the calls in the order of their lines."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    yield from sorted(found, key=lambda call: (call.lineno, call.col_offset))


def begin(foreign: Foreign, launcher: str, stem: str, name: Any, *path: str | int) -> Draft:
    """Return a draft whose trials run the script."""
    draft = Draft(foreign, launcher)
    draft.name(None if str(name or "").startswith(UNKNOWN) else name, stem)
    draft.put(["python", f"{stem}.py"], "program", "command")
    draft.put("./", "program", "source")
    foreign.note(*path, reason=PROGRAM)
    return draft


def add_gpus(draft: Draft, resources: Any, *path: str | int) -> None:
    """Choose hosts for the GPUs of one trial."""
    from trainyard.core.model.gpus import Wanted

    gpus = resources.get("gpu", resources.get("GPU")) if isinstance(resources, dict) else None
    if isinstance(gpus, int | float) and not isinstance(gpus, bool) and gpus > 0:
        if gpus != ceil(gpus):
            draft.origin.note(*path, reason=f"{gpus:g} GPUs; a host belongs to one trial, with whole GPUs")
        draft.gpus([Wanted((), ceil(gpus))], *path)
        draft.origin.note(*path, reason="any kind of GPU fits; hardware.instance_types can name others")
    else:
        draft.origin.note(*path, reason=NO_HOSTS)


def class_of(value: Any) -> str:
    """Return the class of an object, the text of a setting, or an empty text."""
    if isinstance(value, dict):
        return str(value.get("class", ""))
    return value.removeprefix(UNKNOWN) if isinstance(value, str) else ""


def add_sampler(draft: Draft, found: Any, table: Mapping[str, str], usual: str, *path: str | int) -> None:
    """Set the sampler and its seed."""
    name = class_of(found)
    chosen = table.get(name, "tpe" if name else usual)
    study.put(draft, chosen, "sampler")
    if name and name not in table:
        draft.origin.note(*path, reason=f"{name} has no counterpart; study.sampler is {chosen}")
    leave_keywords(draft, found, ("seed",), *path)
    if isinstance(found, dict):
        study.add_seed(draft, found.get("seed"))


def add_pruner(
    draft: Draft, found: Any, table: Mapping[str, tuple[str, str, str]], usual: str, *path: str | int
) -> None:
    """Set the pruner. `table` has the rule of each class, and its keywords for the first rung and the last epoch."""
    name = class_of(found)
    rule, first, last = table.get(name, ("median" if name else usual, "", ""))
    given = found if isinstance(found, dict) else {}
    if name and rule != "none" and (name not in table or rule.replace("_", "") not in name.lower()):
        draft.origin.note(*path, reason=f"{name} became the rule {rule} of study.pruner")
    study.add_pruner(draft, rule, given.get(first), given.get(last), *path)
    leave_keywords(draft, found, (first, last), *path)


def leave_keywords(draft: Draft, found: Any, known: Sequence[str], *path: str | int) -> None:
    """Report the keywords of an object that the section lacks."""
    for word, value in found.items() if isinstance(found, dict) else ():
        if word not in ("class", *known):
            shown = str(value).removeprefix(UNKNOWN)[:40]
            draft.origin.note(*path, reason=f"{word}={shown} of {found['class']} has no counterpart")


def hours_of(seconds: Any) -> float | None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return seconds / 3600 if is_number and seconds > 0 else None
