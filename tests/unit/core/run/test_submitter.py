"""The submitter of a run, from the folder of its job file."""

import pytest

from trainyard.core.model import submitter

KEYS = [
    ("a user", "jobs/by/alice/digits.yaml", "alice"),
    ("a user with all that IAM lets a name have", "jobs/by/a+b=c,d.e@f-g_h/x.json", "a+b=c,d.e@f-g_h"),
    ("a session of a role", "jobs/by/AROAEXAMPLE:alice@example.com/x.yml", "AROAEXAMPLE:alice@example.com"),
    ("a folder of the user's own", "jobs/by/alice/sweep/7.yaml", "alice"),
    ("a folder that only looks like another's", "jobs/by/alice/by/bob/7.yaml", "alice"),
    ("nobody's", "jobs/digits.yaml", submitter.UNKNOWN),
    ("no folder of anybody", "jobs/by/digits.yaml", submitter.UNKNOWN),
    ("a name that IAM never uses", "jobs/by/al ice/x.yaml", submitter.UNKNOWN),
    ("a name that turns a line around", "jobs/by/\u202ealice/x.yaml", submitter.UNKNOWN),
    ("an empty name", "jobs/by//x.yaml", submitter.UNKNOWN),
    ("elsewhere", "data/jobs/by/alice/x.yaml", submitter.UNKNOWN),
    ("no file at all", None, submitter.UNKNOWN),
]


@pytest.mark.parametrize(("key", "who"), [row[1:] for row in KEYS], ids=[row[0] for row in KEYS])
def test_the_submitter_is_whose_folder_the_job_file_lies_in(key: str | None, who: str) -> None:
    assert submitter.submitter_of(key) == who


def test_a_tag_has_only_what_tags_may_have() -> None:
    assert submitter.tag("AROAEXAMPLE:a+b=c,d.e@f-g_h") == "AROAEXAMPLE:a+b=c_d.e@f-g_h"
