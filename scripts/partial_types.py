"""Plugin of mypy: `Partial[RunRow]` is a TypedDict with the fields of the dataclass, none of them required."""

from collections.abc import Callable

from mypy.nodes import TypeInfo, Var
from mypy.plugin import AnalyzeTypeContext, Plugin
from mypy.types import AnyType, Instance, Type, TypedDictType, TypeOfAny, get_proper_type

PARTIAL = "trainyard.values.partial.Partial"


class PartialTypes(Plugin):
    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        return _partial if fullname == PARTIAL else None


def _partial(context: AnalyzeTypeContext) -> Type:
    """Return the TypedDict for the one argument of `Partial[...]`."""
    row = get_proper_type(context.api.analyze_type(context.type.args[0]))
    if not isinstance(row, Instance):
        return AnyType(TypeOfAny.special_form)
    fields: dict[str, Type] = {}
    for info in reversed(row.type.mro):
        fields |= _fields(info)
    fallback = context.api.named_type("typing._TypedDict", [])
    return TypedDictType(fields, set(), set(), fallback)


def _fields(info: TypeInfo) -> dict[str, Type]:
    """Return the fields that a dataclass itself declares, with their types."""
    return {
        name: symbol.node.type
        for name, symbol in info.names.items()
        if isinstance(symbol.node, Var)
        and not symbol.node.is_classvar
        and not name.startswith("_")
        and symbol.node.type is not None
    }


def plugin(version: str) -> type[Plugin]:
    """Entry point for mypy."""
    return PartialTypes
