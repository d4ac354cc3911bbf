"""A program's last uploads are retried during an outage of S3, so that a finished training is not lost."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from training.host.agent.conclusion import add_failed_uploads
from training.host.agent.retries import (
    Retries,
    is_passing,
    is_unreachable,
    patience_with_denials,
    reason_to_end,
)
from training.host.agent.uploads import FailedUpload
from training.host.bucket import Bucket
from training.host.errors import AccessDenied, Damaged, GivenUp, HostTrouble, ProgramFault, Unreachable
from training.host.program.ending import Failed, Finished, Stopped
from trainyard.protocol.signals import FailureKind, StopReason

SLOW_DOWN = HostTrouble("s3:PutObject on s3://b/model/x failed: SlowDown")
DENIED = AccessDenied("s3:PutObject", "s3://b/model/x", role="role of runs")


NOW = datetime(2026, 11, 28, tzinfo=UTC)


@dataclass
class Host:
    """A host that cannot reach S3 before `back_at` seconds, and must end at `ends_at`."""

    back_at: float
    ends_at: float = 3600.0
    now: float = 0.0
    notes: list[str] = field(default_factory=list)
    passes: Callable[[HostTrouble], bool] = is_passing
    denied_seconds: float = 45.0

    def upload(self) -> None:
        self.now += 18.0  # botocore's own retries
        if self.now < self.back_at:
            raise SLOW_DOWN

    def retries(self) -> Retries:
        return Retries(
            has_to_end=lambda: "the lease is over" if self.now >= self.ends_at else None,
            until=lambda: NOW + timedelta(seconds=self.ends_at),
            note=self.notes.append,
            disk_trouble=lambda error: HostTrouble(f"disk: {error}", passes=False),
            passes=self.passes,
            denied_seconds=self.denied_seconds,
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("outage", [0.0, 90.0, 20 * 60.0])
def test_an_outage_costs_time_and_nothing_else(outage: float) -> None:
    host = Host(back_at=outage)
    assert host.retries().upload("model", host.upload) is None
    assert outage <= host.now < outage + 60
    assert abs(len(host.notes) - 1 - outage / 60) <= outage / 240 + 1, "a line a minute"


def test_it_ends_with_the_lease() -> None:
    host = Host(back_at=1e9)
    assert host.retries().upload("model", host.upload) is SLOW_DOWN
    assert host.now < 3700


def test_what_a_run_can_do_without_is_tried_for_ten_minutes() -> None:
    host = Host(back_at=1e9)
    assert host.retries().upload("log", host.upload, most_seconds=600) is SLOW_DOWN
    assert host.now < 660


def raising(error: Exception, host: Host | None = None) -> Callable[[], None]:
    def upload() -> None:
        if host:
            host.now += 1.0
        raise error

    return upload


@pytest.mark.parametrize(
    ("sentence", "error", "said"),
    [
        ("a disk that cannot be read", PermissionError(13, "Permission denied"), "disk: "),
        (
            "a fault of ours",
            UnicodeEncodeError("utf-8", "x", 0, 1, "surrogates"),
            "the host agent itself failed",
        ),
    ],
)
def test_what_does_not_pass_is_tried_once(sentence: str, error: Exception, said: str) -> None:
    host = Host(back_at=0)
    trouble = host.retries().upload("model", raising(error))
    assert trouble is not None, sentence
    assert said in trouble.reason
    assert host.now == 0


def test_a_line_a_minute_says_what_fails_since_when_and_until_when_it_is_tried() -> None:
    host = Host(back_at=90)
    host.retries().upload("model", host.upload)
    assert re.fullmatch(
        r"uploading its model has failed since \d\d:\d\d:\d\d UTC: s3:PutObject .* failed: SlowDown. This host tries "
        r"again until 01:00:00 UTC at the latest, and is billed meanwhile",
        host.notes[0],
    )
    assert re.fullmatch(r"uploading its model: succeeded after \d+ s", host.notes[-1])


@pytest.mark.parametrize(("lasts", "is_denied"), [(15, False), (44, False), (120, True)])
def test_a_permission_that_is_gone_for_seconds_is_not_missing(lasts: float, is_denied: bool) -> None:
    host = Host(back_at=0)

    def upload() -> None:
        host.now += 0.1
        if host.now < lasts:
            raise DENIED

    assert (host.retries().upload("model", upload) is DENIED) is is_denied
    assert host.now < 75


@pytest.mark.parametrize(
    ("ran", "lasts", "ends_at", "is_denied"),
    [
        (60, 500, 7200, False),
        (60, 700, 7200, True),
        (3600, 3500, 7200, False),
        (3600, 3700, 7200, True),
        (7200, 3500, 1800, True),
    ],
    ids=[
        "a short program for ten minutes",
        "and no longer",
        "a long one for as long as it ran",
        "since to train again costs no more",
        "never beyond the lease or the deadline",
    ],
)
def test_a_finished_programs_results_are_tried_without_a_permission_for_as_long_as_it_ran(
    ran: float, lasts: float, ends_at: float, is_denied: bool
) -> None:
    host = Host(back_at=0, ends_at=ends_at, denied_seconds=patience_with_denials(ran))

    def upload() -> None:
        host.now += 0.1
        if host.now < lasts:
            raise DENIED

    assert (host.retries().upload("model", upload) is DENIED) is is_denied
    assert abs(host.now - min(max(600, ran), lasts, ends_at)) < 30
    assert len(host.notes) >= host.now / 80, "a line a minute"


def test_the_line_about_a_denial_says_until_when_the_permission_may_be_added() -> None:
    host = Host(back_at=0, denied_seconds=600)
    retries = replace(host.retries(), until=lambda: datetime.now(UTC) + timedelta(hours=2))
    before = datetime.now(UTC)
    retries.upload("model", raising(DENIED, host))
    said = re.search(r"until (\d\d):(\d\d):(\d\d) UTC", host.notes[0])
    assert said
    hours, minutes, seconds = map(int, said.groups())
    until = before.replace(hour=hours, minute=minutes, second=seconds)
    assert abs((until - before).total_seconds() % 86400 - 600) < 60


BEFORE_A_PROGRAM = [
    ("a service that does not answer", Unreachable("S3 is down"), True),
    ("a permission that comes back", DENIED, True),
    ("a damaged checkpoint", Damaged("facts.json has 3 bytes"), False),
    ("a gang that restores another one", GivenUp("in the next attempt"), False),
    ("a program that cannot be installed", ProgramFault("no such package", final=False), False),
    ("a host's own trouble", HostTrouble("unpacking failed"), False),
]


@pytest.mark.parametrize(
    ("trouble", "waits"), [row[1:] for row in BEFORE_A_PROGRAM], ids=[row[0] for row in BEFORE_A_PROGRAM]
)
def test_what_a_host_waits_for_before_a_program_starts(trouble: HostTrouble, waits: bool) -> None:
    host, answers = Host(back_at=0, passes=is_unreachable), iter([trouble, None])

    def fetch() -> str:
        if error := next(answers):
            raise error
        return "here"

    if waits:
        assert host.retries().get("fetching the job", fetch) == "here"
    else:
        with pytest.raises(type(trouble)):
            host.retries().get("fetching the job", fetch)


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        ("SlowDown", True),
        ("InternalError", True),
        ("", True),
        ("ExpiredToken", True),
        ("KeyTooLongError", False),
    ],
)
def test_which_answers_of_s3_pass(code: str, passes: bool) -> None:
    assert Bucket(None, "b").trouble(code, "s3:PutObject", "k", code).passes is passes


ENDS = [
    # name, changes, why it has to end
    ("nothing asks for an end", {}, None),
    ("the machine goes down", {"going_down": True}, "this host goes down"),
    ("AWS takes it in a minute", {"notice_at": NOW + timedelta(minutes=1)}, None),
    ("in five seconds", {"notice_at": NOW + timedelta(seconds=5)}, "AWS takes this host back"),
    ("the run was just stopped", {"asked_at": NOW}, None),
    ("two minutes ago", {"asked_at": NOW - timedelta(minutes=2)}, "the run was asked to end"),
    ("the hours are used up", {"until": NOW}, "the run's hours or dollars are used up"),
]


@pytest.mark.parametrize(("given", "why"), [row[1:] for row in ENDS], ids=[str(row[0]) for row in ENDS])
def test_when_a_host_may_not_wait_for_s3(given: dict[str, object], why: str | None) -> None:
    usual = {"notice_at": None, "going_down": False, "asked_at": None, "until": NOW + timedelta(hours=1)}
    assert reason_to_end(**(usual | given), now=NOW) == why  # type: ignore[arg-type]


MODEL, LOG = FailedUpload("model", SLOW_DOWN), FailedUpload("log", SLOW_DOWN)


@pytest.mark.parametrize(
    ("sentence", "ended", "failed_upload", "extras", "answer"),
    [
        ("all is there", Finished(), None, None, Finished()),
        (
            "without its model a training has failed, and is not repeated",
            Finished(),
            MODEL,
            LOG,
            Failed(
                FailureKind.HOST,
                f"the program finished, but its model could not be uploaded: {SLOW_DOWN.reason}",
                0,
                True,
            ),
        ),
        (
            "without its log it has finished",
            Finished(("x",)),
            None,
            LOG,
            Finished(("x", f"its log could not be uploaded whole: {SLOW_DOWN.reason}")),
        ),
        (
            "a missing permission ends the run",
            Finished(),
            None,
            FailedUpload("log", DENIED),
            Failed(
                FailureKind.HOST,
                f"the program finished, but its log could not be uploaded: {DENIED.reason}",
                0,
                True,
            ),
        ),
        (
            "one that left is started again",
            Stopped(StopReason.ASKED),
            MODEL,
            None,
            Failed(FailureKind.HOST, SLOW_DOWN.reason, 0),
        ),
        (
            "nothing hides the program's own error",
            Failed(FailureKind.PROGRAM, "no", 1),
            MODEL,
            LOG,
            Failed(FailureKind.PROGRAM, "no", 1),
        ),
    ],
)
def test_an_end_with_what_could_not_be_uploaded(
    sentence: str,
    ended: Finished | Stopped | Failed,
    failed_upload: FailedUpload | None,
    extras: FailedUpload | None,
    answer: Finished | Stopped | Failed,
) -> None:
    assert add_failed_uploads(ended, 0, failed_upload, extras) == answer, sentence
