"""Comparisons in an event pattern: `["a", {"prefix": "b"}]` becomes a test of one value.

Error messages match AWS.
"""

from __future__ import annotations

import ipaddress
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

Test = Callable[[Any], bool]
"""Checks one plain value."""

NOT_ONE = "Value of anything-but must be an array or single string/number value."
COMPARED = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
NAMED = {"=": "equals"}
"""Names of operators in messages, if different from the operator."""
MOST_ALIKE = 3
"""Limit of wildcards before the same character. AWS refuses five, accepts one, and documents no limit."""
IPV4, IPV6 = re.compile(r"\d+(\.\d+){3}", re.ASCII), re.compile(r"[0-9a-fA-F:]*:[0-9a-fA-F:]*")
MASK = re.compile(r"[+-]?\d{1,9}", re.ASCII)


class InvalidPatternError(ValueError):
    """EventBridge refuses the pattern. The message is AWS's reason."""


@dataclass(frozen=True)
class Values:
    """The values that a field of a pattern accepts."""

    tests: Sequence[Test]
    accept_absence: bool
    """True for `exists: false`: the event must have no value there, or one that another comparison accepts."""

    def accept(self, value: Any) -> bool:
        """Return True if one comparison accepts the value."""
        return any(test(value) for test in self.tests)


def values_of(wanted: Sequence[Any]) -> Values:
    """Compile the list of a field's comparisons."""
    if not wanted:
        raise InvalidPatternError("Empty arrays are not allowed")
    tests = [_test(each) for each in wanted]
    return Values(tests, any(isinstance(each, Mapping) and each.get("exists") is False for each in wanted))


def _test(wanted: Any) -> Test:
    if isinstance(wanted, list | tuple):
        raise InvalidPatternError("Match value must be String, number, true, false, or null")
    if not isinstance(wanted, Mapping):
        return partial(_equal, wanted)
    kind, given = _only(wanted, "Match")
    if kind not in OPERATORS:
        raise InvalidPatternError(f"Unrecognized match type {kind}")
    test = OPERATORS[kind](given)
    if len(wanted) > 1:
        is_list = kind in ("numeric", "anything-but")
        raise InvalidPatternError(
            "Too many elements in numeric expression"
            if is_list
            else "Only one key allowed in match expression"
        )
    return test


def _only(wanted: Mapping[str, Any], whose: str) -> tuple[str, Any]:
    if not wanted:
        raise InvalidPatternError(f"{whose} expression name not found")
    return next(iter(wanted.items()))


def _equal(wanted: Any, value: Any) -> bool:
    """Compare values and types: "1" differs from 1, and true from 1."""
    if isinstance(wanted, bool) or isinstance(value, bool):
        return wanted is value
    return bool(wanted == value)


def _text(given: Any, refusal: str) -> str:
    if not isinstance(given, str):
        raise InvalidPatternError(refusal)
    return given


def _exactly(given: Any) -> Test:
    return partial(_equal, _text(given, "exact match pattern must be a string"))


def _exists(given: Any) -> Test:
    if not isinstance(given, bool):
        raise InvalidPatternError("exists match pattern must be either true or false.")
    return lambda _: given


def _affix(kind: str, given: Any) -> Test:
    if isinstance(given, Mapping):
        inner, wanted = _only(given, kind.capitalize())
        if len(given) > 1:
            raise InvalidPatternError("Only one key allowed in match expression")
        if inner != "equals-ignore-case":
            raise InvalidPatternError(f"Unsupported {kind} pattern: {inner}")
        source = _any_case(_text(wanted, "equals-ignore-case match pattern must be a string"))
    else:
        source = re.escape(_text(given, f"{kind} match pattern must be a string"))
    return _full(f"{source}.*" if kind == "prefix" else f".*{source}")


def _ignore_case(given: Any) -> Test:
    return _full(_any_case(_text(given, "equals-ignore-case match pattern must be a string")))


def _any_case(text: str) -> str:
    """Return an expression for each character in lower or upper case, as AWS compares."""
    return "".join(f"(?:{re.escape(each.lower())}|{re.escape(each.upper())})" for each in text)


def _full(source: str) -> Test:
    whole = re.compile(source, re.DOTALL)
    return lambda value: isinstance(value, str) and whole.fullmatch(value) is not None


def _wildcard(given: Any) -> Test:
    text = _text(given, "wildcard match pattern must be a string")
    pieces = [""]
    for found in re.finditer(r"\\(.?)|\*|[^\\*]+", text, re.DOTALL):
        position = len(text[: found.start()].encode(errors="replace")) + 1
        if found[0] == "*":
            if text[found.end() : found.end() + 1] == "*":
                raise InvalidPatternError(f"Consecutive wildcard characters at pos {position}")
            pieces.append("")
        elif found[0].startswith("\\"):
            if found[1] not in ("*", "\\") or not found[1]:
                raise InvalidPatternError(f"Invalid escape character at pos {position}")
            pieces[-1] += found[1]
        else:
            pieces[-1] += found[0]
    following = sorted(piece[:1] for piece in pieces[1:] if piece)
    if any(len([*alike]) > MOST_ALIKE for _, alike in groupby(following)):
        raise InvalidPatternError(
            "Rule is too complex - try using fewer wildcard characters or fewer repeating character sequences after a "
            "wildcard character"
        )
    first, *others = map(re.escape, pieces)
    if not others:
        return _full(first)
    # Each piece matches at its first position, like (?>...), so that patterns of many pieces stay fast.
    inner = "".join(f"(?=(?P<p{number}>.*?{each}))(?P=p{number})" for number, each in enumerate(others[:-1]))
    return _full(f"{first}{inner}.*{others[-1]}")


def _cidr(given: Any) -> Test:
    address, slash, mask = _text(given, "prefix match pattern must be a string").partition("/")
    if not slash or not mask or "/" in mask:
        raise InvalidPatternError("Malformed CIDR, one '/' required")
    if not MASK.fullmatch(mask):
        raise InvalidPatternError("Malformed CIDR, mask bits must be an integer")
    if int(mask) < 0:
        raise InvalidPatternError("Malformed CIDR, mask bits must not be negative")
    if not (IPV4.fullmatch(address) or IPV6.fullmatch(address)):
        raise InvalidPatternError(f"Nonstandard IP address: {address}")
    parsed = _address(address)
    if parsed is None:
        raise InvalidPatternError(f"Invalid IP address: {address}")
    if int(mask) >= parsed.max_prefixlen:
        raise InvalidPatternError(f"IPv{parsed.version} mask bits must be < {parsed.max_prefixlen}")
    network = ipaddress.ip_network(f"{parsed}/{int(mask)}", strict=False)
    return lambda value: (
        isinstance(value, str) and (found := _address(value)) is not None and found in network
    )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Read an address as AWS does: 010 is 10."""
    if IPV4.fullmatch(text):
        text = ".".join(part.lstrip("0") or "0" for part in text.split("."))
    elif not IPV6.fullmatch(text):
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _numeric(given: Any) -> Test:
    """Compile one comparison, or a lower and an upper bound."""
    if not isinstance(given, list | tuple):
        raise InvalidPatternError("Value of numeric must be an array.")
    signs = given[::2]
    if not signs or not isinstance(signs[0], str):
        raise InvalidPatternError(f"Invalid member in numeric match: {_token(signs[0]) if signs else ']'}")
    if signs[0] not in COMPARED:
        raise InvalidPatternError(f"Unrecognized numeric range operator: {signs[0]}")
    bounds = [_bound(signs[0], given[1:2])]
    if len(given) > 2:
        if signs[0] not in (">", ">="):
            raise InvalidPatternError("Too many elements in numeric expression")
        if len(given) > 4:
            raise InvalidPatternError("Too many terms in numeric range expression")
        if not isinstance(signs[1], str):
            raise InvalidPatternError(f"Bad value in numeric range: {_token(signs[1])}")
        if signs[1] not in ("<", "<="):
            raise InvalidPatternError(f"Bad numeric range operator: {signs[1]}")
        bounds.append(_bound(signs[1], given[3:4]))
        if bounds[0] >= bounds[1]:
            raise InvalidPatternError("Bottom must be less than top")
    pairs = [(COMPARED[sign], bound) for sign, bound in zip(signs, bounds, strict=True)]
    return lambda value: _is_number(value) and all(compare(value, bound) for compare, bound in pairs)


def _token(value: Any) -> str:
    """Return the first token of the value's JSON, at which AWS stops reading."""
    return (
        {True: "true", False: "false", None: "null"}.get(value, str(value))
        if _is_plain(value)
        else "[{"[isinstance(value, Mapping)]
    )


def _is_plain(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bound(sign: str, given: Sequence[Any]) -> float:
    if not given or not _is_number(given[0]):
        raise InvalidPatternError(f"Value of {NAMED.get(sign, sign)} must be numeric")
    try:
        number = float(given[0])
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number != given[0]:
        raise InvalidPatternError(f"Cannot compare number : {given[0]}")
    return number


def _anything_but(given: Any) -> Test:
    if isinstance(given, Mapping):
        kind, wanted = _only(given, "Anything-But")
        if len(given) > 1:
            raise InvalidPatternError("Only one key allowed in match expression")
        if kind not in ("prefix", "suffix", "equals-ignore-case", "wildcard"):
            raise InvalidPatternError(f"Unsupported anything-but pattern: {kind}")
        refused = _compile_nested(kind, wanted)
    else:
        refused = [partial(_equal, each) for each in _plain_values(given)]
    return lambda value: not any(test(value) for test in refused)


def _plain_values(given: Any) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        if given is None or isinstance(given, bool):
            raise InvalidPatternError(NOT_ONE)
        return [given]
    if any(each is None or isinstance(each, bool | list | tuple | Mapping) for each in given):
        raise InvalidPatternError("Inside anything but list, start|null|boolean is not supported.")
    if len({isinstance(each, str) for each in given}) != 1:
        raise InvalidPatternError(
            "Inside anything but list, either all values are number or string, mixed type is not supported"
        )
    return given


def _compile_nested(kind: str, wanted: Any) -> list[Test]:
    """Return the comparisons that `anything-but` negates."""
    if wanted is None or isinstance(wanted, bool | Mapping):
        raise InvalidPatternError(NOT_ONE)
    each_of = wanted if isinstance(wanted, list | tuple) else [wanted]
    if not each_of:
        raise InvalidPatternError("Empty arrays are not allowed")
    for each in each_of:
        match kind:
            case "prefix" | "suffix":
                if not _text(each, "prefix/suffix match pattern must be a string"):
                    raise InvalidPatternError("Null prefix/suffix not allowed")
            case "equals-ignore-case":
                _text(
                    each,
                    "Inside anything-but/equals-ignore-case list, number|start|null|boolean is not supported.",
                )
    return [OPERATORS[kind](each) for each in each_of]


OPERATORS: Mapping[str, Callable[[Any], Test]] = {
    "exactly": _exactly,
    "exists": _exists,
    "prefix": partial(_affix, "prefix"),
    "suffix": partial(_affix, "suffix"),
    "equals-ignore-case": _ignore_case,
    "wildcard": _wildcard,
    "cidr": _cidr,
    "numeric": _numeric,
    "anything-but": _anything_but,
}
