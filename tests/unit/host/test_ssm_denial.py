"""What a host can tell of the Systems Manager agent beside it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from training.host.agent.agent import ssm_denial

LINE = (
    "2026-11-20 12:00:01 ERROR [HealthCheck] error when calling AWS APIs. error details - AccessDeniedException: User: "
    "arn:aws:sts::123456789012:assumed-role/Host/i-1 is not authorized to perform: {} on resource: x\n"
)
EARLIER = datetime.now(UTC) - timedelta(hours=1)


def test_the_last_denial_in_the_log_is_told(tmp_path: Path) -> None:
    log = tmp_path / "errors.log"
    log.write_text(
        LINE.format("ssm:UpdateInstanceInformation") + LINE.format("ssmmessages:CreateControlChannel")
    )
    assert ssm_denial(log, since=EARLIER) == "ssmmessages:CreateControlChannel"


def test_a_log_that_came_with_the_image_tells_nothing(tmp_path: Path) -> None:
    log = tmp_path / "errors.log"
    log.write_text(LINE.format("ssm:UpdateInstanceInformation"))
    assert ssm_denial(log, since=datetime.now(UTC) + timedelta(minutes=1)) is None


def test_no_log_and_other_errors_tell_nothing(tmp_path: Path) -> None:
    log = tmp_path / "errors.log"
    assert ssm_denial(log, since=EARLIER) is None
    log.write_text("2026-11-20 12:00:01 ERROR dial tcp: i/o timeout\n")
    assert ssm_denial(log, since=EARLIER) is None
