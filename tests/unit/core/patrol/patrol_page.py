"""The decision table of docs/patrol.md. `python -m tests.unit.core.patrol.patrol_page` writes it."""

from pathlib import Path

from tests.unit.core.patrol.verdict_cases import CASES, Case

PAGE = Path(__file__).resolve().parents[4] / "docs" / "patrol.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def table() -> str:
    """Return the table, one line for each case."""
    lines = ["| a host | verdict |", "|---|---|"]
    return "\n".join([BEGIN, *lines, *(_line(case) for case in CASES), END])


def _line(case: Case) -> str:
    policy = ", ".join(f"`{key}: {value}`" for key, value in case.policy.items())
    return f"| {case.name}{f' ({policy})' if policy else ''} | `{case.word}` |"


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{table()}{after}")


if __name__ == "__main__":
    main()
