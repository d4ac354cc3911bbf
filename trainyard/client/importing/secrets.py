"""Secrets in the commands of another launcher's file: find them, and replace each by a variable of the program."""

import re
from collections.abc import Callable, Sequence

from trainyard.core.model.program_fields import SECRETIVE

TOKENS = (
    (re.compile(r"\bhf_[A-Za-z0-9]{20,}"), "HF_TOKEN"),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{20,}"), "OPENAI_API_KEY"),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}"), "GITHUB_TOKEN"),
    (re.compile(r"(?<=wandb login )[0-9a-f]{40}\b"), "WANDB_API_KEY"),
    (re.compile(r"\bA[KS]IA[0-9A-Z]{16}\b"), "AWS_ACCESS_KEY_ID"),
)
"""Values that services issue as secrets, with the variable that programs read them from."""
VALUE = r"""(?:"[^"$`]+"|'[^']+'|[^\s$"'`(-]\S*)"""
ASSIGNMENT = re.compile(rf"(?P<indent>\s*)(?:export\s+)?(?P<name>[A-Za-z_]\w*)={VALUE}\s*")
OPTION = re.compile(
    r"(?P<option>--?(?P<name>(?:\w*[_-])?(?:api[_-]?key|password|passwd|secret|(?:hf|hub|auth|access)[_-]token)))"
    rf"(?P<sign>[= ]){VALUE}"
)


def is_secretive(name: str) -> bool:
    """Return True for a variable that holds a secret by its name."""
    return name.upper().rpartition("_")[2] in SECRETIVE or name.upper().endswith(("APIKEY", "_PAT"))


def without_secrets(line: str, report: Callable[[str], None]) -> str:
    """Return a shell line with a variable in place of each secret. Report the name of each variable."""
    found = ASSIGNMENT.fullmatch(line)
    if found and is_secretive(found["name"]):
        report(found["name"])
        return f"{found['indent']}: # {found['name']} is a secret of the yard"

    def of_option(found: re.Match[str]) -> str:
        name = re.sub(r"\W", "_", found["name"]).upper()
        report(name)
        return f'{found["option"]}{found["sign"]}"${name}"'

    line = OPTION.sub(of_option, line)
    for pattern, name in TOKENS:
        line, count = pattern.subn(f"${name}", line)
        if count:
            report(name)
    return line


def have_secret(words: Sequence[str]) -> bool:
    """Return True if a command contains a secret's value."""
    found = list[str]()
    without_secrets(" ".join(words), found.append)
    return bool(found)
