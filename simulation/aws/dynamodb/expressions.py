"""DynamoDB's expressions, compiled once for each text: conditions, updates, key conditions.

condition: operand (= <> < <= > >=) operand | operand BETWEEN a AND b | operand IN (a, ...) | AND OR NOT ( )
           | attribute_exists(path) | attribute_not_exists(path) | attribute_type(path, :t)
           | begins_with(path, :v) | contains(path, :v);  operand: path | :value | size(path)
update:    SET path = operand [+|- operand], ...  REMOVE path, ...;
           operand: path | :value | if_not_exists(path, operand) | list_append(operand, operand)
on keys:   pk = :v [AND (sk = < <= > >= :v | sk BETWEEN :a AND :b | begins_with(sk, :v))]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from simulation.aws.dynamodb.operators import (
    COMPARISONS,
    FUNCTIONS,
    add_numbers,
    are_equal,
    are_ordered,
    join_lists,
)
from simulation.aws.dynamodb.paths import Names, Path, value_at, with_value_at, without_aliases
from simulation.aws.dynamodb.values import Item, Value, invalid
from simulation.aws.endpoint.api import ServiceError
from simulation.aws.endpoint.parameters import not_simulated

TOKEN = re.compile(r"\s*(?:([#:]?\w+)|(<=|>=|<>|[=<>(),.\[\]+-]))")
KEYWORDS = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "SET", "REMOVE", "ADD", "DELETE"})
KEYS = ("pk", "sk")
"""Attributes that need no `#` alias. AWS may reserve the names of other attributes."""
Values = Mapping[str, Value]
Operand = Callable[[Item, Names, Values], Value | None]
Condition = Callable[[Item, Names, Values], bool]


@dataclass
class Expression:
    """An expression and the names it uses."""

    kind: str
    names: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)

    def require(self, names: Names, values: Values) -> None:
        """Raise ValidationException if the request does not define a name or value."""
        for name in sorted(self.names - names.keys()):
            raise invalid(
                f"Invalid {self.kind}: An expression attribute name used in the document path is not defined; "
                f"attribute name: {name}"
            )
        for value in sorted(self.values - values.keys()):
            raise invalid(
                f"Invalid {self.kind}: An expression attribute value used in expression is not defined; "
                f"attribute value: {value}"
            )


@dataclass
class CompiledCondition(Expression):
    holds: Condition = lambda item, names, values: True


@dataclass
class CompiledUpdate(Expression):
    sets: list[tuple[Path, Operand]] = field(default_factory=list)
    removes: list[Path] = field(default_factory=list)

    def targets(self, names: Names) -> list[Path]:
        return [without_aliases(path, names) for path in (*(path for path, _ in self.sets), *self.removes)]

    def apply(self, item: Item, names: Names, values: Values) -> Item:
        """Return the updated item without modifying the old one."""
        found: Any = {"M": item}
        for path, operand in self.sets:
            value = operand(item, names, values)
            if value is None:
                raise invalid(
                    "The provided expression refers to an attribute that does not exist in the item"
                )
            found = with_value_at(found, without_aliases(path, names), value)
        for path in self.removes:
            found = with_value_at(found, without_aliases(path, names), None)
        updated: Item = found["M"]
        return updated


@dataclass
class KeyCondition(Expression):
    pk: str = ""
    operator: str = ""
    edges: tuple[str, ...] = ()
    """The names of the operator's values; empty for all sort keys."""


@lru_cache(maxsize=4096)
def condition(text: str, kind: str = "ConditionExpression") -> CompiledCondition:
    parser = Parser(text, kind)
    found = CompiledCondition(kind, parser.names, parser.values, holds=parser.either())
    parser.end()
    return found


@lru_cache(maxsize=4096)
def update(text: str) -> CompiledUpdate:
    parser = Parser(text, "UpdateExpression")
    found = CompiledUpdate(parser.kind, parser.names, parser.values)
    while parser.token:
        clause = parser.take().upper()
        if clause == "SET":
            found.sets += parser.several(parser.assignment)
        elif clause == "REMOVE":
            found.removes += parser.several(parser.path)
        elif clause in ("ADD", "DELETE"):
            raise not_simulated(f"{clause} in an UpdateExpression")
        else:
            raise parser.wrong(clause)
    if not found.sets and not found.removes:
        raise invalid("Invalid UpdateExpression: The expression can not be empty;")
    return found


@lru_cache(maxsize=4096)
def key_condition(text: str) -> tuple[KeyCondition, tuple[tuple[str, str, tuple[str, ...]], ...]]:
    """Return the parsed condition, and its parts: (attribute or alias, operator, values)."""
    parser = Parser(text, "KeyConditionExpression")
    parts = [parser.on_key()]
    while parser.token and parser.take_if("AND"):
        parts.append(parser.on_key())
    parser.end()
    return KeyCondition(parser.kind, parser.names, parser.values), tuple(parts)


def on_keys(text: str, names: Names, values: Values) -> KeyCondition:
    """Return the key condition of a query."""
    blank, parts = key_condition(text)
    blank.require(names, values)
    by_key = {names.get(word, word): (operator, edges) for word, operator, edges in parts}
    if len(by_key) != len(parts) or not set(by_key) <= set(KEYS):
        raise invalid("Query key condition not supported")
    operator, edges = by_key.get("pk", ("", ()))
    if operator != "=":
        raise invalid("Query condition missed key schema element: pk")
    return KeyCondition(blank.kind, blank.names, blank.values, edges[0], *by_key.get("sk", ("", ())))


class Parser:
    """A recursive descent parser for one expression."""

    def __init__(self, text: str, kind: str) -> None:
        self.kind = kind
        self.names: set[str] = set()
        self.values: set[str] = set()
        self._tokens = _tokens(text, kind)
        self._at = 0
        if not self._tokens:
            raise invalid(f"Invalid {kind}: The expression can not be empty;")

    @property
    def token(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        token = self.token
        if not token or (wanted and token != wanted):
            raise self.wrong(token)
        self._at += 1
        return token

    def take_if(self, word: str) -> bool:
        found = self.token.upper() == word
        self._at += found
        return found

    def end(self) -> None:
        if self.token:
            raise self.wrong(self.token)

    def wrong(self, token: str) -> ServiceError:
        near = " ".join(self._tokens[max(0, self._at - 1) : self._at + 2])
        return invalid(f'Invalid {self.kind}: Syntax error; token: "{token or "<EOF>"}", near: "{near}"')

    def several(self, read: Callable[[], Any]) -> list[Any]:
        found = [read()]
        while self.take_if(","):
            found.append(read())
        return found

    # conditions

    def either(self) -> Condition:
        parts = [self.both()]
        while self.take_if("OR"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else lambda *about: any(part(*about) for part in parts)

    def both(self) -> Condition:
        parts = [self.negated()]
        while self.take_if("AND"):
            parts.append(self.negated())
        return parts[0] if len(parts) == 1 else lambda *about: all(part(*about) for part in parts)

    def negated(self) -> Condition:
        if self.take_if("NOT"):
            inner = self.negated()
            return lambda *about: not inner(*about)
        if self.take_if("("):
            inner = self.either()
            self.take(")")
            return inner
        return self.function() if self.token in FUNCTIONS else self.comparison()

    def function(self) -> Condition:
        name = self.take()
        self.take("(")
        operands = self.several(self.operand)
        self.take(")")
        test, count = FUNCTIONS[name]
        if len(operands) != count:
            raise invalid(
                f"Invalid {self.kind}: Incorrect number of operands for operator or function; {name}"
            )
        return lambda *about: test([operand(*about) for operand in operands])

    def comparison(self) -> Condition:
        left = self.operand()
        operator = self.take().upper()
        if operator == "IN":
            self.take("(")
            choices = self.several(self.operand)
            self.take(")")
            return lambda *about: any(are_equal(left(*about), choice(*about)) for choice in choices)
        right = self.operand()
        if operator == "BETWEEN":
            if not self.take_if("AND"):
                raise self.wrong(self.token)
            most = self.operand()
            return lambda *about: (
                are_ordered(right(*about), left(*about), "<=")
                and are_ordered(left(*about), most(*about), "<=")
            )
        if operator == "=":
            return lambda *about: are_equal(left(*about), right(*about))
        if operator == "<>":
            return lambda *about: not are_equal(left(*about), right(*about))
        if operator not in COMPARISONS:
            raise self.wrong(operator)
        return lambda *about: are_ordered(left(*about), right(*about), operator)

    def operand(self) -> Operand:
        word = self.token
        if word == "size":
            return self._size()
        if word.startswith(":"):
            return self._value()
        path = self.path()
        if len(path) == 1:
            name = str(path[0])
            return lambda item, names, values: item.get(names.get(name, name))
        return lambda item, names, values: value_at(item, without_aliases(path, names))

    def path(self) -> Path:
        parts: list[str | int] = [self._name()]
        while self.token in (".", "["):
            if self.take() == ".":
                parts.append(self._name())
            else:
                parts.append(int(self.take()))
                self.take("]")
        return tuple(parts)

    def _name(self) -> str:
        word = self.take()
        if word.startswith("#"):
            self.names.add(word)
        elif word.upper() in KEYWORDS or not re.fullmatch(r"[A-Za-z_]\w*", word):
            raise self.wrong(word)
        elif word not in KEYS:
            raise not_simulated(f"the attribute {word} without an alias (AWS may have reserved the word)")
        return word

    def _value(self) -> Operand:
        word = self._value_name()
        return lambda item, names, values: values[word]

    def _value_name(self) -> str:
        word = self.take()
        if not word.startswith(":"):
            raise self.wrong(word)
        self.values.add(word)
        return word

    def _size(self) -> Operand:
        self.take()
        self.take("(")
        inner = self.operand()
        self.take(")")

        def size(item: Item, names: Names, values: Values) -> Value | None:
            value = inner(item, names, values)
            if value is None:
                return None
            [(kind, content)] = value.items()
            return {"N": str(len(content.encode() if kind == "S" else content))}

        return size

    # updates

    def assignment(self) -> tuple[Path, Operand]:
        path = self.path()
        self.take("=")
        left = self.set_operand()
        if self.token not in ("+", "-"):
            return path, left
        sign = self.take()
        right = self.set_operand()
        return path, lambda *about: add_numbers(left(*about), right(*about), sign)

    def set_operand(self) -> Operand:
        function = self.token
        if function not in ("if_not_exists", "list_append"):
            return self.operand()
        self.take()
        self.take("(")
        first = self.operand() if function == "if_not_exists" else self.set_operand()
        self.take(",")
        second = self.set_operand()
        self.take(")")
        if function == "list_append":
            return lambda *about: join_lists(first(*about), second(*about))
        return lambda *about: first(*about) or second(*about)

    # keys

    def on_key(self) -> tuple[str, str, tuple[str, ...]]:
        if self.take_if("("):
            found = self.on_key()
            self.take(")")
            return found
        if self.take_if("BEGINS_WITH"):
            self.take("(")
            name = self._name()
            self.take(",")
            edge = self._value_name()
            self.take(")")
            return name, "begins_with", (edge,)
        name, operator = self._name(), self.take().upper()
        first = self._value_name()
        if operator == "BETWEEN":
            if not self.take_if("AND"):
                raise self.wrong(self.token)
            return name, operator, (first, self._value_name())
        if operator != "=" and operator not in COMPARISONS:
            raise invalid("Invalid operator used in KeyConditionExpression: " + operator)
        return name, operator, (first,)


def _tokens(text: str, kind: str) -> list[str]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise invalid(f'Invalid {kind}: Syntax error; token: "{text[at]}", near: "{text[at : at + 10]}"')
        found.append(match[1] or match[2])
        at = match.end()
    return found
