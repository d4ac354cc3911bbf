"""Notebooks for tests."""

import json
from typing import Any


def notebook(*cells: str, parameters: str = "") -> str:
    """Return a notebook with an optional cell of parameters and these code cells."""
    tagged = [("parameters", parameters)] if parameters else []
    return json.dumps(
        {
            "nbformat": 4,
            "nbformat_minor": 4,
            "metadata": {"kernelspec": {"name": "python3", "language": "python", "display_name": "mine"}},
            "cells": [
                {
                    "cell_type": "code",
                    "source": source,
                    "metadata": {"tags": [tag]} if tag else {},
                    "outputs": [],
                    "execution_count": None,
                }
                for tag, source in [*tagged, *(("", cell) for cell in cells)]
            ],
        }
    )


def printed_text(cell: dict[str, Any]) -> str:
    return "".join("".join(output.get("text") or ()) for output in cell["outputs"])
