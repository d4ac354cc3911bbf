"""Errors of the Systems Manager agent, read by the host agent."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from training.host.agent.systems_manager import SsmAgent, denial

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
    assert denial(log, since=EARLIER) == "ssmmessages:CreateControlChannel"


def test_a_log_that_came_with_the_image_tells_nothing(tmp_path: Path) -> None:
    log = tmp_path / "errors.log"
    log.write_text(LINE.format("ssm:UpdateInstanceInformation"))
    assert denial(log, since=datetime.now(UTC) + timedelta(minutes=1)) is None


def test_no_log_and_other_errors_tell_nothing(tmp_path: Path) -> None:
    log = tmp_path / "errors.log"
    assert denial(log, since=EARLIER) is None
    log.write_text("2026-11-20 12:00:01 ERROR dial tcp: i/o timeout\n")
    assert denial(log, since=EARLIER) is None


def restarts(tmp_path: Path, *said: str, up: timedelta = timedelta(0)) -> int:
    """Return the number of restarts if the agent logs one of these errors before each turn."""
    log, now, count = tmp_path / "errors.log", datetime.now(UTC) - timedelta(seconds=5), 0

    def restart() -> None:
        nonlocal count
        count += 1

    beside = SsmAgent(log, now - up, restart=restart)
    for line in said:
        if line:
            log.write_text(line)
        beside.turn(datetime.now(UTC) + timedelta(seconds=1))
    return count


def test_an_agent_that_sleeps_after_calls_that_failed_is_started_anew(tmp_path: Path) -> None:
    failed = "2026-11-20 12:00:01 ERROR EC2RoleProvider Failed to connect to Systems Manager\n"
    assert restarts(tmp_path, failed) == 1
    assert restarts(tmp_path, failed, "", "") == 1, "it complains no more"


def test_an_agent_that_says_nothing_may_not_or_has_been_up_for_long_is_left_alone(tmp_path: Path) -> None:
    assert restarts(tmp_path, "", "") == 0
    assert restarts(tmp_path, LINE.format("ssm:UpdateInstanceInformation")) == 0
    assert restarts(tmp_path, "ERROR a session was lost\n", up=timedelta(minutes=15)) == 0
