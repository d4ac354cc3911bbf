"""Generate tables of docs/contracts from the classes of trainyard/protocol and the sentences under their fields.

`python -m tests.unit.protocol.reference` (part of `make format`) writes them again.
"""

import ast
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from trainyard.core.model.states import OF_A_SNAPSHOT, WORDS

ROOT = Path(__file__).resolve().parents[3]
PROTOCOL, CONTRACTS = ROOT / "trainyard/protocol", ROOT / "docs/contracts"


def classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module of the protocol, without errors."""
    tree = ast.parse((PROTOCOL / f"{module}.py").read_text())
    found = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name: node for node in found if not node.name.endswith("Error")}


def explained(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield each field with the sentence under it, which may be empty."""
    for field, behind in zip(node.body, [*node.body[1:], None], strict=True):
        target = getattr(field, "target", None) or next(iter(getattr(field, "targets", ())), None)
        if isinstance(field, ast.AnnAssign | ast.Assign) and isinstance(target, ast.Name):
            value = behind.value if isinstance(behind, ast.Expr) else None
            text = value.value if isinstance(value, ast.Constant) else ""
            yield target.id, " ".join(str(text).split())


def word_of(node: ast.ClassDef) -> str | None:
    """Return the word of a signal or a request."""
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and getattr(field.target, "id", "") == "detail_type":
            return str(ast.literal_eval(field.value)) if isinstance(field.value, ast.Constant) else None
    return None


def messages(module: str, head: str) -> str:
    """Return a table of the classes that have a word: their docstrings, and the keys of each."""
    found = classes(module)
    rows = [head, "|---|---|---|"]
    for node in found.values():
        if word := word_of(node):
            own = [_key(name, text) for name, text in explained(node) if name != "detail_type"]
            shared = [f"fields of {base.id}" for base in node.bases if isinstance(base, ast.Name)]
            rows.append(f"| `{word}` | {_docstring(node)} | {'<br>'.join(own + shared)} |")
    return "\n".join(rows)


def lists(module: str, *names: str) -> str:
    """Return each class with its fields or members, in a list."""
    found = classes(module)
    return "\n".join(
        f"- **{name}**: {_docstring(found[name])}{_bases(found[name], found)}\n"
        + "\n".join(f"  - {_key(_value(found[name], each), text)}" for each, text in explained(found[name]))
        for name in names
    )


def states() -> str:
    """Return a table of the states and the statuses of executions with their words, one row a word."""
    rows: dict[str, list[str]] = {}
    for state, word in [
        *WORDS.items(),
        *((f"{name} of a snapshot", word) for name, word in OF_A_SNAPSHOT.items()),
    ]:
        rows.setdefault(word, []).append(state)
    return "\n".join(
        [
            "| states | word |",
            "|---|---|",
            *(f"| {', '.join(names)} | {word} |" for word, names in rows.items()),
        ]
    )


def _bases(node: ast.ClassDef, beside: Collection[str]) -> str:
    """Return the sentence that names the classes of the same list whose keys the class has, too."""
    names = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in beside]
    return f" It also has the keys of {' and '.join(names)}." if names else ""


def _value(node: ast.ClassDef, name: str) -> str:
    """Return the value of a member of an enumeration, or the name of a field."""
    for field in node.body:
        if isinstance(field, ast.Assign) and getattr(field.targets[0], "id", "") == name:
            return str(ast.literal_eval(field.value))
    return name


def _docstring(node: ast.ClassDef) -> str:
    return " ".join((ast.get_docstring(node) or "").split())


def _key(name: str, text: str) -> str:
    return f"`{name}`: {text}" if text else f"`{name}`"


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("signals.md", "signals"): lambda: messages("signals", "| signal | sent by | further keys |"),
    ("signals.md", "values"): lambda: lists("signals", "HowFar", "Resumed", "StopReason", "FailureKind"),
    ("signals.md", "requests"): lambda: messages("requests", "| request | asks to | keys |"),
    ("signals.md", "orders"): lambda: lists("orders", "Order"),
    ("ledger.md", "run"): lambda: lists("ledger/run", "RunRow", "Waiting", "WaitsFor", "Moved", "Outcome"),
    ("ledger.md", "plan"): lambda: lists("plan", "Plan", "Priced", "Candidate", "Excluded", "RefusalKind"),
    ("ledger.md", "launch-request"): lambda: lists(
        "ledger/launch_request", "LaunchRequestRow", "CandidateRefusal"
    ),
    ("ledger.md", "attempt"): lambda: lists("ledger/attempt", "AttemptRow", "Ending", "TokenRow", "WaitRow"),
    ("ledger.md", "host"): lambda: lists("ledger/host", "BilledHost", "HostRow"),
    ("ledger.md", "study"): lambda: lists(
        "ledger/study", "StudyRow", "Search", "TrialRow", "TrialState", "DrawnBy", "RungRow"
    ),
    ("ledger.md", "models"): lambda: lists(
        "ledger/models", "ModelRow", "VersionRow", "VersionState", "MoveRow", "ServedRow", "ListedModel"
    ),
    ("ledger.md", "trial"): lambda: lists("trial", "Trial", "Pruned"),
    ("ledger.md", "timeline"): lambda: lists("timeline", "Entry", "Source"),
    ("ledger.md", "yard"): lambda: lists(
        "ledger/yard",
        "Money",
        "PriceList",
        "VerdictRow",
        "VerdictRows",
        "QuarantineRow",
        "DevImaging",
        "DevRow",
    ),
    ("states.md", "words"): states,
    ("ledger.md", "claim"): lambda: lists("ledger/claim", "Claim", "ClaimKind"),
    ("bucket.md", "cluster"): lambda: lists(
        "cluster", "Cluster", "Assignment", "Checkpoint", "Role", "Strategy"
    ),
    ("bucket.md", "container"): lambda: lists("containers", "Container", "Manifest"),
    ("bucket.md", "file-systems"): lambda: lists("file_systems", "FileSystem"),
    ("bucket.md", "export"): lambda: lists("export", *reversed(classes("export"))),
    ("bucket.md", "summary"): lambda: lists("summary", *reversed(classes("summary"))),
}
"""Functions that generate the parts, by page and mark."""


def page(name: str, current: str) -> str:
    """Return the page with its parts generated from the protocol."""
    for (file, mark), text in PARTS.items():
        if file == name:
            begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
            before, _, rest = current.partition(begin)
            current = f"{before}{begin}\n{text()}\n{end}{rest.partition(end)[2]}"
    return current


def pages() -> set[str]:
    """Return the pages that have parts."""
    return {file for file, _ in PARTS}


if __name__ == "__main__":
    for each in pages():
        path = CONTRACTS / each
        path.write_text(page(each, path.read_text()))
