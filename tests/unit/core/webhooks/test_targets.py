"""Faults of the targets in a job's `notify`."""

import pytest

from lambdas.core.webhooks.targets import faults
from trainyard.core.jobfile import check
from trainyard.core.model.job import Job
from trainyard.protocol.webhooks import own_parameter
from trainyard.values.validation import InputFaults

KNOWN = {
    "/yard/webhooks/ml": '{"kind": "slack", "on": ["end"]}',
    "/yard/webhooks/pager": "by hand",
    own_parameter("yard", "ada"): '{"kind": "discord"}',
    own_parameter("yard", "bob"): '{"kind": "teams"}',
}


@pytest.mark.parametrize("target", ["ml", "slack:ml", "me", "pager", "url:pager"])
def test_a_registered_webhook_is_accepted(target: str) -> None:
    assert faults([target], KNOWN, "yard", "ada") == ()


@pytest.mark.parametrize(
    ("target", "sender", "words"),
    [
        (
            "mll",
            "ada",
            'the webhook mll does not exist: the yard has ml, pager; did you mean "ml"?; register it:',
        ),
        ("teams:ml", "ada", "of the kind slack: write slack:ml, or only ml"),
        ("me", "eve", "eve has no webhook of their own; register it: trainyard webhook add me --kind slack"),
    ],
)
def test_a_target_that_is_not_registered_is_refused_with_what_exists(
    target: str, sender: str, words: str
) -> None:
    (fault,) = faults(["ml", target] if target != "ml" else [target], KNOWN, "yard", sender)
    assert words in str(fault)
    assert fault.path == "notify[1]"


def job(notify: object) -> Job | InputFaults:
    written = {"name": "digits", "program": {"shell": "true"}, "notify": notify}
    return check.check(written, source="job.yaml", bucket="b")


def test_a_job_names_its_webhooks() -> None:
    found = job(["slack:ml", "me"])
    assert not isinstance(found, InputFaults), found
    assert found.notify == ("slack:ml", "me")


@pytest.mark.parametrize(
    "notify", ["ml", ["sms:ml"], ["ml", "ml"], [1], ["by"], ["slack:me"], ["x" * 41], ["a"] * 11]
)
def test_a_malformed_list_is_refused(notify: object) -> None:
    found = job(notify)
    assert isinstance(found, InputFaults)
    assert "notify" in found.reason
