"""Each notification that has a text is also sent."""

import ast
import inspect
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from lambdas.core import notifications

ROOT = Path(__file__).resolve().parents[3]
TEXTS = [
    f"{module.name}_texts.{name}"
    for module in iter_modules(notifications.__path__)
    for name, function in inspect.getmembers(
        import_module(f"{notifications.__name__}.{module.name}"), inspect.isfunction
    )
    if "Notification" in str(inspect.get_annotations(function).get("return"))
]
SENDERS = [*(ROOT / "lambdas/workflows").rglob("*.py"), *(ROOT / "lambdas/steps").rglob("*.py")]
CALLED = {
    ast.unparse(node.func)
    for path in SENDERS
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.Call)
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_function_sends_each_notification(text: str) -> None:
    assert text in CALLED


def test_there_are_notifications() -> None:
    assert len(TEXTS) >= 4
