"""The documentation shows the files of examples/programs unchanged."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "examples" / "programs").glob("*.py"))
PAGES = ("programs.md", "examples/model-parallel.md")
SHOWN = re.compile(r"^`examples/programs/(\S+\.py)`\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_example_is_shown_as_it_is() -> None:
    texts = [(ROOT / "docs" / page).read_text() for page in PAGES]
    shown = dict(example for text in texts for example in SHOWN.findall(text))
    assert shown == {path.name: path.read_text() for path in PROGRAMS}
