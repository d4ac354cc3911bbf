"""Wildcards in names, compared as IAM compares them.

`*` and `?` match any character, including a newline. An object's key is compared literally, with each slash.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from ministack.services import s3

from localcloud.patches import MINISTACK

PATTERNS = 4096
WILD = {"*": ".*", "?": "."}


def install() -> None:
    """Match patterns against whole names, and S3 resources by their keys."""
    stock_arn = MINISTACK.stock("core.iam_actions:extract_resource_arn")

    def resource_arn(
        service: str,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        query: Mapping[str, Any],
        *more: str,
    ) -> Any:
        if service == "s3":
            bucket, key = s3._parse_bucket_key(path, headers)
            if bucket and key:
                return f"arn:aws:s3:::{bucket}/{key}"
        return stock_arn(service, method, path, headers, body, query, *more)

    MINISTACK.replace("core.iam_actions:extract_resource_arn", resource_arn)
    MINISTACK.replace("core.iam_evaluator:_fnmatch_compile", compile_wildcards)


@functools.lru_cache(PATTERNS)
def compile_wildcards(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    """Return the expression that must match a whole name."""
    text = "".join(WILD.get(character) or re.escape(character) for character in pattern)
    return re.compile(rf"{text}\Z", re.DOTALL | (re.IGNORECASE if ignore_case else 0))
