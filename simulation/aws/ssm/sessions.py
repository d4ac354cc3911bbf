"""Open sessions of users on hosts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from simulation.aws.endpoint.api import Answer, Caller, Request
from simulation.aws.endpoint.parameters import not_simulated, only, with_token
from simulation.aws.ssm.pages import take_page
from simulation.world.world import World

SHELL = "SSM-SessionManagerRunShell"
"""The default SSM document of a session."""


@dataclass(frozen=True)
class Session:
    id: str
    target: str
    owner: str
    began: datetime
    document: str


class SessionCalls:
    world: World

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}

    def open_session(self, instance_id: str, owner: str = "person", *, document: str = SHELL) -> str:
        session = Session(self.world.new_id(f"{owner}-"), instance_id, owner, self.world.now, document)
        self.sessions[session.id] = session
        return session.id

    def close_session(self, session_id: str) -> None:
        self.sessions.pop(session_id, None)

    def describe_sessions(self, caller: Caller, request: Request) -> Answer:
        only(request, ("State", "MaxResults", "NextToken"), "DescribeSessions")
        if request["State"] != "Active":
            raise not_simulated("sessions that have ended")
        rows, token = take_page(list(self.sessions.values()), request, 1, most=200)
        shown = [
            {
                "SessionId": s.id,
                "Target": s.target,
                "Status": "Connected",
                "StartDate": s.began,
                "Owner": s.owner,
                "DocumentName": s.document,
            }
            for s in rows
        ]
        return with_token({"Sessions": shown}, token)
