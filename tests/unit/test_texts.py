"""The catalog of texts holds every text that a user can meet, and its texts fit one item, many items and none."""

import ast
import re
from collections.abc import Iterator

from lambdas.core.patrol import verdict
from tests.unit import texts
from training.host.errors import HostTrouble
from trainyard.client.errors import YardError
from trainyard.core.model.errors import TrainyardError

OTHER = ("Refused", "NoPlan", "GiveUp", "TryLater", "Fault", "Notification", "BadParameter", "SettingsError")
"""Classes that hold a text for users, beside errors and verdicts."""
COUNTED = re.compile(r"^ [a-z]+s\b(?! or )(?!.*(\bup to|at most))")
"""A plural behind a count that may be one; a limit that was exceeded is always above one."""
VERBS = re.compile(r"(?:^|[:;,] | (?:and|that|but) )<[^<>]*, \.\.\.> (is|are|has|have|was|were)\b|\(s\)")
"""A verb behind a list that may have one item or many."""


def _names(root: type[object]) -> Iterator[str]:
    yield root.__name__
    for inner in type.__subclasses__(root):
        yield from _names(inner)


def _strings() -> Iterator[tuple[str, ast.JoinedStr]]:
    """Yield the f-strings that are no branch of a choice such as `"1 host" if ... else ...`."""
    for path in texts.python_files():
        nodes = [*ast.walk(texts.tree_of(path))]
        branches = {
            id(each) for node in nodes if isinstance(node, ast.IfExp) for each in (node.body, node.orelse)
        }
        for node in nodes:
            if isinstance(node, ast.JoinedStr) and id(node) not in branches:
                yield f"{path.relative_to(texts.ROOT)}:{node.lineno}: {texts.shown(node)}", node


def _literals(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and len(each.value.split()) > 2:
            yield " ".join(each.value.split())


def test_every_error_refusal_verdict_and_notification_is_in_the_catalog() -> None:
    classes = {
        name for root in (YardError, TrainyardError, HostTrouble, verdict.Verdict) for name in _names(root)
    }
    classes |= {verdict.NeedsMetrics.__name__, *OTHER}
    catalog = " ".join(texts.page().split())
    calls = [
        (path.relative_to(texts.ROOT), node)
        for path in texts.python_files()
        for node in ast.walk(texts.tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
        if (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) in classes
    ]
    assert len(calls) > 250
    lacking = {
        f"{path}:{call.lineno}: {text}"
        for path, call in calls
        for text in _literals(call)
        if text not in catalog
    }
    assert sorted(lacking) == []


def test_every_command_is_in_the_catalog() -> None:
    assert len(list(texts.help_lines())) > 50


def test_a_count_and_its_noun_come_from_the_shared_helper() -> None:
    """`trainyard.values.quantities.counted` writes `1 host` and `2 hosts`."""
    wrong = []
    for place, node in _strings():
        for before, value, text in zip([None, *node.values], node.values, node.values[1:], strict=False):
            if isinstance(before, ast.Constant) and str(before.value).endswith(" of "):
                continue
            is_count = isinstance(value, ast.FormattedValue) and ast.unparse(value.value).startswith("len(")
            if is_count and isinstance(text, ast.Constant) and COUNTED.search(str(text.value)):
                wrong.append(place)
    assert wrong == []


def test_no_verb_follows_a_list_that_may_have_one_item() -> None:
    assert [place for place, node in _strings() if VERBS.search(texts.shown(node))] == []
