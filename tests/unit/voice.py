"""Count the marks of odd English in docstrings, texts and pages, by folder.

`python -m tests.unit.voice` prints the counts, `python -m tests.unit.voice PATH` the sentences of one folder or file.
`make format` lowers the ceilings in voice_ceilings.json to the counts; a ceiling never rises.
"""

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CEILINGS = Path(__file__).with_name("voice_ceilings.json")
RULES = {
    r"\b(?i:nobody|somebody|whoever|whom|whomever)\b": "name the user, the caller or the part",
    r"^(What|Who|Whether|Of|The same|That|Those|Where|Which)\b": "start with a verb, a noun or a name",
    r"\b(?i:of|by|in|from|to) which\b|\b(?i:of whom|of whose)\b": "write two sentences",
    r"\b(?i:anew|but for|be it|save that|for want of|how-manieth|so many|so much|mend|mended|mends)\b": (
        "use modern words: again, except, for lack of, nth, correct"
    ),
    r"\b(?i:is no|are none)\b": "state it positively",
    r"\b(?i:that of|those of)\b": "repeat the noun",
    r"\b(?i:told of|tells of|(?:is|are|be) told|knows? of|hears? of)\b": "programs read, send and record",
    r"\b(?i:goes on|go on|going on)\b": "write continue",
    r"\b(?i:alone)\b": "write only",
}
"""Patterns and what to write instead."""
MARKS = {re.compile(pattern): rule for pattern, rule in RULES.items()}
FOLDERS = (
    *("benchmarks", "docs", "examples", "lambdas", "localcloud", "scripts", "simulation"),
    *("stacks", "tests", "trainyard", "training"),
)
ENDS = re.compile(r"(?<=[.:;])\s+")


def marks(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each mark of a Python file or page: the sentence and the rule that it breaks."""
    for sentence in _sentences(path):
        for pattern, rule in MARKS.items():
            for _ in pattern.finditer(sentence):
                yield sentence, rule


def counts() -> dict[str, int]:
    """Return the number of marks in each folder of the project, and in its README."""
    found = {folder: sum(len(list(marks(path))) for path in files(ROOT / folder)) for folder in FOLDERS}
    return found | {"README.md": len(list(marks(ROOT / "README.md")))}


def files(below: Path) -> list[Path]:
    """Return the Python files and pages below a folder; decisions and change logs are history."""
    if below.is_file():
        return [below]
    found = (path for path in sorted(below.rglob("*")) if path.suffix in {".py", ".md"})
    return [path for path in found if not {"node_modules", "decisions"} & set(path.parts)]


def _sentences(path: Path) -> Iterator[str]:
    text = path.read_text()
    texts = (
        [re.sub(r"```.*?```", "", text, flags=re.DOTALL)]
        if path.suffix == ".md"
        else (
            node.value
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 2
        )
    )
    for each in texts:
        yield from (sentence.strip() for sentence in ENDS.split(each.strip()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--lower"]:
        ceilings = json.loads(CEILINGS.read_text())
        lower = {folder: min(count, ceilings.get(folder, 0)) for folder, count in counts().items()}
        CEILINGS.write_text(json.dumps(lower, indent=2) + "\n")
    elif sys.argv[1:]:
        for path in files(ROOT / sys.argv[1]):
            for sentence, rule in marks(path):
                print(f"{path.relative_to(ROOT)}: {rule}: {' '.join(sentence.split())[:160]}")
    else:
        for folder, count in Counter(counts()).most_common():
            print(f"{count:6,} {folder}")
