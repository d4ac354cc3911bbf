"""The cluster of an attempt: its strategy, and the role of each host."""

from enum import StrEnum
from typing import assert_never


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
