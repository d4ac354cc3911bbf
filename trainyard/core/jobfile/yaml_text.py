"""The loader that avoids the surprises of YAML 1.1 (document.py). Its import takes a tenth of the time of boto3's, so
only a function that reads YAML imports it."""

import json
import re
from typing import Any

import yaml

from trainyard.values.validation import BareWord


def load(text: str, *, deepest: int) -> object:
    """Return the document in a YAML text. Raises ValueError with the reason, the line and the column."""
    try:
        loader = _Loader(text)
        loader.deepest = deepest
        try:
            document: object = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = error.problem or error.context
        raise ValueError(f"it is not YAML that a job file may use: {where}{problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"it is not YAML: {' '.join(str(error).split())}") from error
    except ValueError as error:  # for example a number of thousands of digits
        raise ValueError(f"it holds a value that cannot be read: {error}") from error
    return document


class _Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of this module and without aliases, tags and repeated keys."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - where PyYAML keeps a loader class's resolvers
    depth = deepest = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.MarkedYAMLError(
                problem="anchors (&) and aliases (*) are refused", problem_mark=event.start_mark
            )
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(problem="tags (!) are refused", problem_mark=event.start_mark)
        if self.depth >= self.deepest:
            problem = f"it is nested more than {self.deepest} levels deep"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = f"the key {json.dumps(key.value)} occurs twice in one mapping"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        document: dict[Any, Any] = super().construct_mapping(node, deep)
        return document


def _int(loader: Any, node: Any) -> int:
    return int(loader.construct_scalar(node))


def _float(loader: Any, node: Any) -> float:
    return float(loader.construct_scalar(node).replace(".inf", "inf").replace(".nan", "nan"))


def _bare_word(loader: Any, node: Any) -> BareWord:
    return BareWord(loader.construct_scalar(node))


_NULL, _BOOL, _INT, _FLOAT, _WORD = (
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "word")
)
for _tag, _pattern, _first in (
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?(?:0|[1-9][0-9_]*)", list("-+0123456789")),
    (
        _FLOAT,
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        list("-+.0123456789"),
    ),
    (_WORD, r"(?i:yes|no|on|off)", list("yYnNoO")),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)
_Loader.add_constructor(_INT, _int)
_Loader.add_constructor(_FLOAT, _float)
_Loader.add_constructor(_WORD, _bare_word)
