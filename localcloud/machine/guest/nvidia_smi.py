"""`nvidia-smi` of a host with `fault gpu`: it answers queries from the state that the fault has left.

A host has the command only after such a fault, because it has no GPU.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

STATE = Path("/run/localcloud/gpus.json")
"""A list with one object for each GPU: its words by field."""
QUERIES = ("--query-gpu", "--query-remapped-rows")
INVALID = 2


def answer(words: list[str], gpus: list[dict[str, str]]) -> tuple[int, str]:
    """Return the exit code and the output for a query. nvidia-smi refuses a whole query with an unknown field."""
    options = dict(word.partition("=")[::2] for word in words)
    fields = next((options[query].split(",") for query in QUERIES if query in options), [])
    for field in fields:
        if field not in gpus[0]:
            return INVALID, f'Field "{field}" is not a valid field to query.\n'
    if not fields:
        return (
            INVALID,
            "This nvidia-smi of the local cloud answers only --query-gpu and --query-remapped-rows.\n",
        )
    return 0, "".join(f"{', '.join(gpu[field] for field in fields)}\n" for gpu in gpus)


def main() -> None:
    code, output = answer(sys.argv[2:], json.loads(STATE.read_text()))
    print(output, end="")
    sys.exit(code)
