"""What can go wrong between a person and a yard.

YardError
    NoCredentials       none were found, or AWS did not accept them
    NoRegion            nothing says in which region the yard is
    Denied              the credentials may not do this
    NoAnswer            the endpoint cannot be reached
    YardNotFound        no such yard there
    YardIncomplete      its stacks are there, and not as `make deploy` leaves them
    FileUnreadable      the job file or the recipe
    RunNotStarted       an upload started no run
    StillRunning        longer than one wanted to wait
    RunFailed           or was refused, or was stopped
    NoModel             the run has left none
"""

# ruff: noqa: N818 - `except RunFailed` is the sentence; the root's name says that they are errors


class YardError(Exception):
    """`what` happened, what it `means`, and the `next_step`: what to type or change now."""

    def __init__(self, what: str, means: str, next_step: str) -> None:
        super().__init__(f"{what}: {means}. Next: {next_step}")
        self.what, self.means, self.next_step = what, means, next_step


class NoCredentials(YardError):
    """None were found, or AWS did not accept them."""


class NoRegion(YardError):
    """Nothing says in which region the yard is."""


class Denied(YardError):
    """The credentials may not do this."""


class NoAnswer(YardError):
    """The endpoint cannot be reached."""


class YardNotFound(YardError):
    """No such yard there."""


class YardIncomplete(YardError):
    """Its stacks are there, and not as `make deploy` leaves them."""


class FileUnreadable(YardError):
    """The job file or the recipe."""


class RunNotStarted(YardError):
    """An upload started no run."""


class StillRunning(YardError):
    """Longer than one wanted to wait."""


class RunFailed(YardError):
    """Or was refused, or was stopped."""


class NoModel(YardError):
    """The run has left none."""
