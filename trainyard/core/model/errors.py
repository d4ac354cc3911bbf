"""The tree of all errors: the part at fault, and the action that follows.

    TrainyardError
    ├── UsersFault            the user corrects the job file or the program     no new attempt
    │   ├── JobRefused          a fault in the job file, its program or its data
    │   ├── SnapshotRefused     a fault in the request for a snapshot, or a host that does not allow it
    │   ├── DevHostRefused      a fault in the request for a dev host
    │   ├── ModelRefused        a fault in a request about a model, or in the origin of a version
    │   ├── RecipeRefused       a fault in the recipe of an image
    │   ├── BakeUnderWay        another bake may move the image parameter
    │   ├── RollbackRefused     the yard has no previous image
    │   ├── LimitReached        the job's own hours or dollars are used up
    │   ├── EarlierRunFailed    a run of start_after has not ended as wanted
    │   ├── BudgetSpent         the yard's dollars of this month are used up
    │   ├── Stopped             a user stopped the run
    │   ├── ProgramFailed       the user's program ended with an error
    │   └── ProgramHangs        the user's program showed no sign of life       new attempt
    ├── Capacity              EC2 has no capacity now                           another pool, later
    │   ├── CapacityRefused     a capacity pool refused the gang
    │   ├── QuotaExceeded       the account's vCPU quota is full                only with another quota
    │   ├── YardFull            the yard's limit of runs or hosts is reached    the run ends
    │   ├── NoCapacity          no pool can hold the gang, or all refused       the run ends
    │   ├── Interrupted         EC2 takes a spot host back                      new attempt
    │   ├── Resized             the gang continues with more hosts              new attempt, not a restart
    │   └── Preempted           a run of a higher priority needs the slot       new attempt later, not a restart
    ├── Access                the operator corrects a policy                    no new attempt
    │   └── AccessDenied        a role lacks a permission that the run needs
    ├── Configuration         the operator corrects the setup or the image      no new attempt
    │   ├── Misconfigured       the yard itself is set up wrongly
    │   ├── InstallFailed       the recipe could not be installed on the builder
    │   ├── TestFailed          the installed software does not pass the tests of a bake
    │   ├── GeneralizeFailed    a host could not be prepared for an image
    │   ├── PauseFailed         a host's program could not be paused for an image
    │   └── ImageFailed         EC2 could not make the image
    └── Infrastructure        a host or a service failed                        new attempt
        ├── StillStopping       a host is still stopping
        ├── StartFailed         a host could not start the program
        ├── UploadFailed        a host could not upload the results of the program
        ├── HostLost            a host disappeared without a warning
        ├── HardwareFailed      the hardware of a host failed; the host is not used again
        ├── NotRegistered       Systems Manager does not list a host
        ├── HostsNotReady       a host did not get ready in time
        └── ServiceUnavailable  AWS does not answer now; the workflow retries for some minutes

The name of a class is the name of the error everywhere: a Lambda that raises it fails its state with that name,
SendTaskFailure sends the name, Catch routes on it, and recovery.py decides by it.
"""

# ruff: noqa: N818 - states fail with the name of a class, which does not end in Error

from enum import StrEnum
from typing import ClassVar

from trainyard.values.lazy import dataclass


class Blame(StrEnum):
    """The part at fault."""

    USER = "user"
    CAPACITY = "capacity"
    ACCESS = "access"
    CONFIGURATION = "configuration"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"


class TrainyardError(Exception):
    """An error with a reason for users: what happened, what it means, what to do."""

    blame = Blame.UNKNOWN
    retry_can_help = False

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UsersFault(TrainyardError):
    blame = Blame.USER


class JobRefused(UsersFault):
    """The job cannot run as written. The reason names every fault."""


class SnapshotRefused(UsersFault):
    """The host cannot be imaged as requested. The reason names every fault."""


class DevHostRefused(UsersFault):
    """A host cannot be launched as requested. The reason names every fault."""


class ModelRefused(UsersFault):
    """The model cannot be changed as requested, or the version does not give the right answers."""


class RecipeRefused(UsersFault):
    """The image cannot be made as its recipe is written. The reason names every fault."""


class BakeUnderWay(UsersFault):
    """Another bake may move the image parameter. The reason names it."""


class RollbackRefused(UsersFault):
    """The current and the previous image cannot be exchanged, because hosts cannot start from a previous image."""


class LimitReached(UsersFault):
    """The hours or dollars that the job allows are used up."""


class EarlierRunFailed(UsersFault):
    """A run that this run was to start after has not ended as wanted, or does not exist."""


class BudgetSpent(UsersFault):
    """The dollars that the yard may spend in a month are used up. New runs are refused."""


class Stopped(UsersFault):
    """A user stopped the run. The reason names the user."""


class ProgramFailed(UsersFault):
    """The user's program ended with an error."""


class ProgramHangs(UsersFault):
    """The user's program neither reported progress nor printed for too long. It may succeed when it is started
    again."""

    retry_can_help = True


class Capacity(TrainyardError):
    blame = Blame.CAPACITY
    retry_can_help = True


class CapacityRefused(Capacity):
    """A pool has no capacity for the gang now. Another pool or a later time may have."""


class QuotaExceeded(Capacity):
    """The account's vCPU quota is too small for the gang, or was full for as long as the job waits. Only another quota,
    a raised quota or the end of other hosts helps."""

    retry_can_help = False


class YardFull(Capacity):
    """The yard has as many runs, or as many hosts, as it may have at once. New runs are refused."""

    retry_can_help = False


class NoCapacity(Capacity):
    """No capacity pool can hold the gang, or every pool refused for as long as the job waits."""

    retry_can_help = False


class Interrupted(Capacity):
    """EC2 takes a spot host back, two minutes after its interruption notice."""


class Resized(Capacity):
    """More hosts are ready for an attempt that trained with fewer workers than its job may have. This is not a
    failure."""


class Preempted(Capacity):
    """A run of a higher priority needs the slot of this run, which waits in the queue and continues from its
    checkpoint. This is not a failure."""


class Access(TrainyardError):
    blame = Blame.ACCESS


class AccessDenied(Access):
    """A role lacks a permission that the run needs. The reason names the action."""


class Configuration(TrainyardError):
    blame = Blame.CONFIGURATION


class Misconfigured(Configuration):
    """The yard itself is set up wrongly: image, launch template, subnet, parameter."""


class InstallFailed(Configuration):
    """The recipe could not be installed on the builder."""


class TestFailed(Configuration):
    """The software on the builder does not pass the tests, so no image is made."""


class GeneralizeFailed(Configuration):
    """The data of a single host could not be removed from its disk, so no image is made."""


class PauseFailed(Configuration):
    """A host's program could not be paused, so no image is made."""


class ImageFailed(Configuration):
    """EC2 could not make the image."""


class Infrastructure(TrainyardError):
    blame = Blame.INFRASTRUCTURE
    retry_can_help = True


class StartFailed(Infrastructure):
    """A host could not start the program, because of a download, its disk, the environment or the command."""


class UploadFailed(Infrastructure):
    """A host could not upload the results of the program. A finished training is not repeated because of it."""


class HostLost(Infrastructure):
    """A host disappeared without a warning."""


class HardwareFailed(Infrastructure):
    """The hardware of a host failed, by the kernel's messages. The host is terminated and not used again."""


class NotRegistered(Infrastructure):
    """Systems Manager does not list a host. The workflow retries for some minutes."""


class StillStopping(Infrastructure):
    """A host is still stopping. The workflow retries for some minutes."""


class HostsNotReady(Infrastructure):
    """A host was launched but did not get ready in time."""


class ServiceUnavailable(Infrastructure):
    """AWS does not answer now: it throttles, has a fault, or cannot be reached. `code` is AWS's error code."""

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code


def _words(error: type[TrainyardError]) -> dict[str, type[TrainyardError]]:
    kinds = error.__subclasses__()
    return {error.__name__: error} if not kinds else {k: v for kind in kinds for k, v in _words(kind).items()}


WORDS = _words(TrainyardError)
"""The errors that a state can fail with, by name: the leaves of the tree."""


def blame_of(error: str | None) -> Blame:
    """Return the part at fault, by the name of the error that a state failed with."""
    known = WORDS.get(error or "")
    return known.blame if known else Blame.UNKNOWN


def is_the_yards(error: Exception) -> bool:
    """Return True if the operator must be notified: of a bug, a missing permission or a wrong setup. All other errors
    are reported where the run ends."""
    return not isinstance(error, TrainyardError) or isinstance(error, AccessDenied | Misconfigured)


@dataclass(frozen=True)
class Refused:
    """A decision not to begin. `error` is the name of an error of this tree; `reason` contains every reason."""

    kind: ClassVar[str] = "refused"
    error: str
    reason: str
