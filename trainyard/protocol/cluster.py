"""The cluster of an attempt: its strategy, and the role of each host."""

from enum import IntEnum, StrEnum
from typing import assert_never

from trainyard.values.lazy import dataclass


class Strategy(StrEnum):
    SINGLE = "single"
    MIRRORED = "mirrored"
    MULTI_WORKER = "multi_worker"
    PARAMETER_SERVER = "parameter_server"

    @property
    def has_several_hosts(self) -> bool:
        """Whether more than one host may train."""
        match self:
            case Strategy.SINGLE | Strategy.MIRRORED:
                return False
            case Strategy.MULTI_WORKER | Strategy.PARAMETER_SERVER:
                return True
        assert_never(self)

    @property
    def is_asynchronous(self) -> bool:
        """Whether workers train each at its own speed, with parameter servers that hold the variables."""
        match self:
            case Strategy.SINGLE | Strategy.MIRRORED | Strategy.MULTI_WORKER:
                return False
            case Strategy.PARAMETER_SERVER:
                return True
        assert_never(self)


class Role(StrEnum):
    """What a host is in its cluster, in TensorFlow's words."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


class Gang(IntEnum):
    """The hosts that are launched together, all of one type: those of `hardware.instance_types`, and beside them
    those of `hardware.cpu_instance_types`, which have no GPU."""

    MAIN = 1
    CPU = 2


class StopReason(StrEnum):
    """Why a host has left an attempt."""

    INTERRUPTED = "interrupted"
    """The host itself goes away."""
    ASKED = "asked"
    """The host was told to leave."""
    LIMIT = "limit"
    """The run's hours or dollars are used up."""
    PEER = "peer"
    """Another host of its cluster has left or failed."""
    KILLED = "killed"
    """Its program was ended by a signal of unknown origin."""
    HANGS = "hangs"
    """Its program showed no work for PROGRAM_SILENT (core/model/gang.py)."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A host that can have a role in a cluster."""

    instance: str
    gang: Gang = Gang.MAIN
    address: str | None = None
    """None before the host has reported it."""
