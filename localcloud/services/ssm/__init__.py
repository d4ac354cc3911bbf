"""Systems Manager: documents, Run Command, sessions and agents on hosts. ministack provides parameters."""

from __future__ import annotations

import asyncio
import json
import pickle
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ministack.core.responses import error_response_json, json_response

from localcloud.base import upgrades
from localcloud.base.context import Context
from localcloud.machine.hypervisor import Hypervisor
from localcloud.patches import MINISTACK
from localcloud.services.eventbridge import service_events
from localcloud.services.iam import expansion
from localcloud.services.ssm import parameters, session_permissions
from localcloud.services.ssm.agent import Agents
from localcloud.services.ssm.announcements import announcer
from localcloud.services.ssm.cloudformation import resource_handler
from localcloud.services.ssm.commands import Commands
from localcloud.services.ssm.document import SsmError
from localcloud.services.ssm.documents import Documents
from localcloud.services.ssm.service import Service
from localcloud.services.ssm.sessions import PREFIX, Sessions

Handler = Callable[..., Awaitable[Any]]


def install(context: Context, hypervisor: Hypervisor) -> None:
    """Install our actions in ministack's SSM, the document type in CloudFormation, and an agent on every host."""
    service = make_service(context, hypervisor)
    stock = MINISTACK.stock("app:SERVICE_HANDLERS")["ssm"]
    MINISTACK.extend("app:SERVICE_HANDLERS", {"ssm": with_our_actions(stock, service)})
    MINISTACK.extend(
        "services.cloudformation.provisioners:_RESOURCE_HANDLERS",
        {"AWS::SSM::Document": resource_handler(service.documents)},
    )
    expansion.EXPANDERS.update(session_permissions.expanders(service.sessions))
    upgrades.upgrade_handlers[PREFIX] = service.sessions
    hypervisor.listeners.append(service.agents.host_changed)
    keep(context, service)


def make_service(context: Context, hypervisor: Hypervisor) -> Service:
    announce = announcer(service_events.emit, context.region, context.account)
    documents = Documents(context.account)
    commands = Commands(time.time, announce, context.store.request_write)
    agents = Agents(
        hypervisor,
        commands,
        endpoint=context.endpoint,
        output=context.state / "commands",
        boot_seconds=context.settings.latencies.agent,
        now=time.time,
    )
    sessions = Sessions(
        hypervisor,
        agents,
        documents,
        output=context.state / "sessions",
        minute=context.settings.sessions.minute_seconds,
        now=time.time,
        may_hold_sessions=lambda key: session_permissions.may_hold_sessions(
            key, context.account, context.region
        ),
        may_open=lambda upgrade, session: session_permissions.refusal(
            upgrade, session, context.account, context.region
        ),
        changed=context.store.request_write,
    )
    return Service(context.account, context.region, documents, commands, agents, sessions)


def with_our_actions(stock: Handler, service: Service) -> Handler:
    """Return a handler that answers our actions and passes all others to ministack."""
    ours, of_callers = service.actions(), service.actions_of_callers()

    async def handle(method: str, path: str, headers: Any, body: bytes, query: Any) -> Any:
        name = headers.get("x-amz-target", "").rpartition(".")[2]
        action = ours.get(name)
        try:
            if name in of_callers:
                caller = session_permissions.caller(headers, query)
                asked = json.loads(body or b"{}")
                return json_response(await asyncio.to_thread(of_callers[name], asked, caller))
            if action is None:
                taken = json.dumps(parameters.to_ministack(name, json.loads(body or b"{}"))).encode()
                return await stock(method, path, headers, taken, query)
            return json_response(await asyncio.to_thread(action, json.loads(body or b"{}")))
        except SsmError as error:
            return error_response_json(error.code, error.message, 400)
        except KeyError as error:
            return error_response_json("ValidationException", f"{error.args[0]} is required", 400)

    return handle


def keep(context: Context, service: Service) -> None:
    def save() -> bytes:
        return pickle.dumps(
            {
                "documents": service.documents.save(),
                "commands": service.commands.save(),
                "sessions": service.sessions.save(),
            }
        )

    def restore(saved: bytes) -> None:
        parts = pickle.loads(saved)  # noqa: S301 - written by ourselves, in the state folder
        service.documents.restore(parts["documents"])
        service.commands.restore(parts["commands"])
        service.sessions.restore(parts.get("sessions", {}))

    context.store.keep("ssm", save, restore)
