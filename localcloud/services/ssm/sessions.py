"""Sessions with their hosts, connections and ends.

Contains the parts of the service and of the message gateway. The agent's part runs on the host
(`machine/guest/session.py`) and receives the client's connection, so session data never passes through this process.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import socket
import string
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from localcloud.base.background import in_background
from localcloud.base.upgrades import Refusal, Upgrade
from localcloud.machine.hypervisor import HostNotRunningError, Hypervisor
from localcloud.services.ssm.agent import VERSION, Agents
from localcloud.services.ssm.document import Document, SsmError, Values
from localcloud.services.ssm.documents import Documents
from localcloud.services.ssm.session import Caller, Line, Session, received

log = logging.getLogger(__name__)

PREFIX = "/v1/data-channel/"
PREFERENCES = "SSM-SessionManagerRunShell"
IDLE_MINUTES = 20
LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 10.0
"""Seconds for a session to end before its process is killed. A frozen host never answers."""
SUFFIX = string.digits + string.ascii_lowercase
LETTERS = 26
MOST_KEPT = 1000
LOGS = ("s3BucketName", "cloudWatchLogGroupName", "kmsKeyId")
"""Preferences that the local cloud does not support."""
CHANNEL_ACTIONS = tuple(
    f"ssmmessages:{verb}{kind}Channel" for verb in ("Create", "Open") for kind in ("Control", "Data")
)
"""Actions that an agent needs for sessions, besides its registration."""


class Sessions:
    """All sessions of the account."""

    def __init__(
        self,
        hypervisor: Hypervisor,
        agents: Agents,
        documents: Documents,
        *,
        output: Path,
        minute: float,
        now: Callable[[], float],
        may_hold_sessions: Callable[[str], bool],
        may_open: Callable[[Upgrade, Session], Refusal | None],
        changed: Callable[[], None],
    ) -> None:
        """`may_hold_sessions` returns True if the role with this access key lets its agent hold sessions.

        `may_open` returns the refusal of a signed opening of a channel.
        """
        self._hypervisor = hypervisor
        self._agents = agents
        self._documents = documents
        self._output = output
        self._minute = minute
        self._now = now
        self._may_speak = may_hold_sessions
        self._may_open = may_open
        self._changed = changed
        self._lock = threading.RLock()
        self._sessions: dict[str, Session] = {}
        self._lines: dict[str, Line] = {}
        self._some = threading.Event()
        threading.Thread(target=self._keep, name="sessions", daemon=True).start()

    # --- called by the service ---

    def is_connected(self, target: str) -> bool:
        """Return True if the host's agent can receive sessions."""
        if target not in self._agents.list_registered() or self._hypervisor.impairments(target):
            return False
        credentials = self._hypervisor.metadata(target).credentials
        return credentials is not None and self._may_speak(credentials["AccessKeyId"])

    def start(
        self, caller: Caller, target: str, name: str | None, parameters: Mapping[str, Any], reason: str
    ) -> Session:
        document, values = self._document(name, parameters)
        preferences = self._preferences(document)
        if not self.is_connected(target):
            raise SsmError("TargetNotConnected", f"{target} is not connected.")
        now = self._now()
        suffix = "".join(secrets.choice(SUFFIX) for _ in range(LETTERS))
        longest = str(preferences.get("maxSessionDuration") or "")
        session = Session(
            id=f"{caller.name}-{suffix}"[-96:],
            target=target,
            document=name or PREFERENCES,
            owner=caller.arn,
            user_id=caller.user_id,
            reason=reason,
            started=now,
            active=now,
            idle_seconds=self._minute * int(preferences.get("idleSessionTimeout") or IDLE_MINUTES),
            longest_seconds=self._minute * int(longest) if longest else None,
            longest_minutes=longest,
            token=_token(),
        )
        order = {
            "session": session.id,
            "target": target,
            "agent_version": VERSION,
            "kind": document.session.type if document.session else "Standard_Stream",
            "properties": document.properties(values) if document.session else {},
            "run_as": _run_as(preferences),
            "profile": str((preferences.get("shellProfile") or {}).get("linux") or ""),
        }
        self._begin(session, order)
        return session

    def resume(self, session_id: str) -> Session:
        """Return the session with a new token that replaces the earlier one."""
        with self._lock:
            return self._change(self._active(session_id), token=_token())

    def terminate(self, session_id: str, why: str = "") -> None:
        """End a session. Repeated calls have no effect."""
        with self._lock:
            session = self.get(session_id)
            if session is None:
                raise SsmError("DoesNotExistException", f"Session {session_id} does not exist.")
            if session.is_over:
                return
            self._change(session, status="Terminating", ending=why, asked_to_end=self._now())
            line = self._lines[session_id]
        line.send_order(op="terminate", reason=why)

    def get(self, session_id: str) -> Session | None:
        with self._lock:
            return self._sessions.get(session_id)

    def all(self, *, over: bool) -> list[Session]:
        """Return sessions, newest first."""
        with self._lock:
            found = [each for each in self._sessions.values() if each.is_over is over]
        return sorted(found, key=lambda each: each.started, reverse=True)

    # --- connections, for base.upgrades ---

    def refusal(self, upgrade: Upgrade) -> Refusal | None:
        session = self.get(upgrade.path.removeprefix(PREFIX))
        if session is None or session.is_over:
            return Refusal(404, "the session does not exist")
        return self._may_open(upgrade, session)

    def take(self, upgrade: Upgrade, opening: str, connection: socket.socket, begun: bytes) -> bool:
        try:
            message = json.loads(opening)
        except ValueError:
            return False
        token = str(message.get("TokenValue", "")) if isinstance(message, dict) else ""
        with self._lock:
            session = self.get(upgrade.path.removeprefix(PREFIX))
            if session is None or session.is_over or not hmac.compare_digest(session.token, token):
                return False
            line = self._lines[session.id]
        with tempfile.TemporaryFile() as file:  # a client that reconnects sends many messages at once
            file.write(begun)
            file.seek(0)
            taken = line.send_order([connection.fileno(), file.fileno()], op="attach")
        if taken:
            connection.close()
        return taken

    # --- saved state ---

    def save(self) -> dict[str, Session]:
        """Return ended sessions. Others end with their hosts."""
        with self._lock:
            return {
                name: each if each.is_over else replace(each, status="Terminated", ended=self._now())
                for name, each in self._sessions.items()
            }

    def restore(self, saved: Mapping[str, Session]) -> None:
        with self._lock:
            self._sessions = {**saved, **self._sessions}

    # --- internal ---

    def _document(self, name: str | None, parameters: Mapping[str, Any]) -> tuple[Document, Values]:
        """Return the named document, or the account's preferences, which may be missing."""
        if name is None:
            return self._own_preferences(), {}
        kept = self._documents.find(PREFERENCES) if name == PREFERENCES else self._documents.get(name)
        document = kept.version("$DEFAULT").document if kept else NO_PREFERENCES
        if document.session is None and document is not NO_PREFERENCES:
            raise SsmError("InvalidDocument", f"{name} is not a document of the type Session.")
        return document, document.check(parameters)

    def _own_preferences(self) -> Document:
        kept = self._documents.find(PREFERENCES)
        return kept.version("$DEFAULT").document if kept else NO_PREFERENCES

    def _preferences(self, document: Document) -> Mapping[str, Any]:
        """Return the document's preferences merged over the account's."""
        account = self._own_preferences().session
        own = document.session
        found = {**(account.inputs if account else {}), **(own.inputs if own else {})}
        if asked := [name for name in LOGS if found.get(name)]:
            raise SsmError(
                "UnsupportedOperation",
                f"The local cloud neither logs nor encrypts sessions: take {', '.join(asked)} out of the preferences.",
            )
        return found

    def _begin(self, session: Session, order: Mapping[str, Any]) -> None:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            control.send(json.dumps(order).encode())
            try:
                execution = self._hypervisor.start_session(session.target, theirs, self._output / session.id)
            except HostNotRunningError as error:
                control.close()
                raise SsmError("TargetNotConnected", f"{session.target} is not connected.") from error
        line = Line(control, execution)
        with self._lock:
            self._sessions[session.id] = session
            self._lines[session.id] = line
            self._forget()
        self._some.set()
        self._changed()
        in_background(f"session {session.id}", lambda: self._follow(session.id, line))

    def _follow(self, session_id: str, line: Line) -> None:
        """Handle messages of the session's process until its end."""
        status, why = "Failed", "the session's process has vanished"
        while data := received(line.control):
            event = json.loads(data)
            with self._lock:
                session = self._sessions[session_id]
                match event["event"]:
                    case "active":
                        self._change(session, active=self._now())
                    case "connected" if session.status != "Terminating":
                        self._change(session, status="Connected", active=self._now())
                    case "disconnected" if session.status == "Connected":
                        self._change(session, status="Disconnected")
                    case "ended":
                        status, why = "Terminated", event["reason"]
        line.control.close()
        with self._lock:
            session = self._sessions[session_id]
            if session.status == "Terminating":
                status, why = "Terminated", session.ending
            self._lines.pop(session_id)
            self._change(session, status=status, ending=why, ended=self._now(), token="")
        line.execution.cancel()
        log.info("session %s on %s: %s (%s)", session_id, session.target, status, why or "ended")

    def _keep(self) -> None:
        """Check timeouts and unreachable hosts while any session exists."""
        while True:
            self._some.wait()
            with self._lock:
                lines = dict(self._lines)
                if not lines:
                    self._some.clear()
            for session_id, line in lines.items():
                self._look_after(session_id, line)
            time.sleep(LOOK_SECONDS)

    def _look_after(self, session_id: str, line: Line) -> None:
        session, now = self._sessions[session_id], self._now()
        if session.asked_to_end is not None:
            if now - session.asked_to_end > PATIENCE_SECONDS:
                line.control.shutdown(socket.SHUT_RDWR)
            return
        cut = bool(self._hypervisor.impairments(session.target) - {"frozen"})
        if cut is not line.held and line.send_order(op="hold" if cut else "go"):
            line.held = cut
        if why := session.overdue(now):
            self.terminate(session_id, why)

    def _active(self, session_id: str) -> Session:
        session = self.get(session_id)
        if session is None or session.is_over or session.status == "Terminating":
            raise SsmError("DoesNotExistException", f"Session {session_id} does not exist or is over.")
        return session

    def _change(self, session: Session, **changes: Any) -> Session:
        changed = replace(session, **changes)
        self._sessions[session.id] = changed
        self._changed()
        return changed

    def _forget(self) -> None:
        over = [name for name, each in self._sessions.items() if each.is_over]
        for name in over[: max(0, len(over) - MOST_KEPT)]:
            del self._sessions[name]


NO_PREFERENCES = Document("", "1.0", {}, ())


def _run_as(preferences: Mapping[str, Any]) -> str:
    if str(preferences.get("runAsEnabled") or "").lower() != "true":
        return ""
    user = str(preferences.get("runAsDefaultUser") or "")
    if not user:
        raise SsmError("InvalidDocument", "please set the RunAs default user")
    return user


def _token() -> str:
    return secrets.token_urlsafe(192)
