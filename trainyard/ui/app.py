"""The page's addresses. `pages` has what they show, `actions` what they do, and `security` guards all of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from trainyard.client import Yard, YardError
from trainyard.client.errors import ModelNotFound, RunNotFound
from trainyard.protocol.ledger.study import STUDY
from trainyard.ui import actions, downloads, sse
from trainyard.ui.cache import Cache
from trainyard.ui.pages.compare import MOST, Compare
from trainyard.ui.pages.hosts import Hosts
from trainyard.ui.pages.images import Images
from trainyard.ui.pages.models import ModelPage, Models
from trainyard.ui.pages.money import Money
from trainyard.ui.pages.page import Page, Seen, read_values
from trainyard.ui.pages.run import RunPage, find_lines
from trainyard.ui.pages.runs import Runs
from trainyard.ui.pages.schedules import Schedules, find_schedule
from trainyard.ui.pages.studies import Studies
from trainyard.ui.pages.study import StudyPage
from trainyard.ui.security import Guard
from trainyard.ui.templating import Templates
from trainyard.ui.view import View
from trainyard.values.text import printable

FIRST_LOOK = 3.0
"""Seconds that a page waits for AWS. After that it is shown without data, which follow by events."""
PATHS = (
    "/", "/studies", "/schedules", "/hosts", "/money", "/images", "/models", "/compare",
    "/runs/{run}", "/studies/{study}", "/models/{model}",
)  # fmt: skip
MOST_SHOWN = 200
"""Characters of an address that a page shows."""
MOST_TYPED = 2**16
"""Bytes of a form."""


@dataclass(frozen=True)
class Server:
    """The handlers of all addresses."""

    cache: Cache
    templates: Templates
    closing: asyncio.Event
    """Set when the command ends."""

    # ------------------------------------------------------------------------------------------------------ reading
    async def page(self, request: Request) -> Response:
        page = page_of(request)
        try:
            seen = await asyncio.wait_for(read_values(page, self.cache), FIRST_LOOK)
        except TimeoutError:
            seen = {"troubles": []}
        for trouble in seen["troubles"]:
            if isinstance(trouble, RunNotFound | ModelNotFound):
                return HTMLResponse(self.templates.refusal(trouble), 404)
        if isinstance(page, RunPage) and "status" in seen and seen["status"].kind == STUDY:
            return RedirectResponse(f"/studies/{page.run}")
        return HTMLResponse(self.templates.page(page, seen, request.url.path))

    async def events(self, request: Request) -> Response:
        last, have = request.headers.get("last-event-id", ""), request.query_params.get("have", "")
        events = sse.stream(page_of(request), self.cache, self.templates, self.closing, have=have, last=last)
        return StreamingResponse(events, media_type="text/event-stream")

    async def download(self, request: Request) -> Response:
        run, name = request.path_params["run"], request.path_params["name"]
        try:
            found = await self.cache.do_apart(lambda yard: downloads.open_download(yard, run, name))
        except YardError as error:
            return HTMLResponse(self.templates.refusal(error), 404)
        headers = {"Content-Disposition": f'attachment; filename="{found.name}"'}
        headers |= {"Content-Length": str(found.size)} if found.size is not None else {}
        return StreamingResponse(found.pieces, headers=headers, media_type="application/octet-stream")

    async def lines(self, request: Request) -> Response:
        """Answer with the dialog of the lines that contain a text, of all hosts and attempts."""
        run, text = request.path_params["run"], request.query_params.get("find", "")
        try:
            found = await self.cache.do_apart(lambda yard: find_lines(yard, run, text))
        except YardError as error:
            return HTMLResponse(self.templates.dialog("trouble", troubles=[error]))
        return HTMLResponse(self.templates.dialog("lines", run=run, text=text, found=found))

    async def usage(self, request: Request) -> Response:
        """Answer with the charts of one host."""
        page, host = RunPage(request.path_params["run"]), request.query_params.get("host", "")
        try:
            return JSONResponse({"charts": await page.own_usage(self.cache, host)})
        except YardError as error:
            return HTMLResponse(self.templates.refusal(error), 404)

    async def missing(self, request: Request, error: Exception) -> Response:
        """Answer an unknown address."""
        path = printable(request.url.path, MOST_SHOWN)
        detail = error.detail if isinstance(error, HTTPException) and error.detail != "Not Found" else ""
        error_shown = YardError(
            f"the page {path} does not exist{f': {detail}' if detail else ''}",
            "the address may be mistyped, or belong to another version of the page",
            "open Runs, Studies, Schedules, Hosts, Cost, Images or Models above",
        )
        return HTMLResponse(self.templates.refusal(error_shown), 404)

    # ------------------------------------------------------------------------------------------------------- actions
    async def dialog(self, request: Request) -> Response:
        """Answer with the dialog of an action."""
        action_of(request, {})
        try:
            seen = await self._about(request)
        except YardError as error:
            return HTMLResponse(self.templates.dialog("trouble", troubles=[error]))
        name = request.path_params["action"]
        is_other = name == "resume" and "schedule" in seen
        return HTMLResponse(self.templates.dialog("resume-schedule" if is_other else name, **seen))

    async def done(self, request: Request) -> Response:
        action = action_of(request, await _read_form(request))
        try:
            run = await self.cache.do(action)
        except YardError as error:
            return HTMLResponse(self.templates.trouble(error))
        self.cache.stale("runs", "studies", "schedules", "bakes", "hosts", ("run", run), ("study", run))
        shown = "/schedules" if "schedule" in request.path_params else f"/runs/{run}"
        return Response(status_code=204, headers={"HX-Redirect": shown})

    async def predict(self, request: Request) -> Response:
        """Answer the form of a model with the predictions, or with the reason of the refusal."""
        model, typed = request.path_params["model"], await _read_form(request)
        text, version = typed.get("request", ""), typed.get("version", "")
        try:
            answer = await self.cache.do(lambda yard: actions.predict(yard, model, text, version))
        except YardError as error:
            return HTMLResponse(self.templates.trouble(error))
        return HTMLResponse(self.templates.prediction(answer))

    async def _about(self, request: Request) -> Seen:
        if "schedule" in request.path_params:
            return {"schedule": await find_schedule(self.cache, request.path_params["schedule"])}
        if "run" not in request.path_params:
            return {}
        page = RunPage(request.path_params["run"])
        picture = (await page.look(self.cache))["picture"]
        job = picture.status.job
        return {
            "run": page.run,
            "picture": picture,
            "status": picture.status,
            "arguments": actions.arguments_of(job),
        }


class Static(StaticFiles):
    """Files of the package. If their address names the version, browsers can cache them."""

    def file_response(
        self, full_path: Any, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        answer = super().file_response(full_path, stat_result, scope, status_code)
        is_versioned = scope["query_string"] or "vendor" in Path(full_path).parts
        answer.headers["Cache-Control"] = "private, max-age=86400" if is_versioned else "no-cache"
        return answer


def app(
    find: Callable[[], Yard],
    templates: Templates,
    token: str,
    port: int,
    closing: asyncio.Event,
    once: Collection[str] = (),
) -> ASGIApp:
    """Return the page of the yard that `find` returns.

    It serves requests with the token. Each token of `once` can be exchanged for it one time.
    """
    cache = Cache(find)
    server = Server(cache, templates, closing)
    routes = [
        Mount("/static", Static(directory=Path(__file__).with_name("static"))),
        *(Route(path, server.page) for path in PATHS),
        *(Route(f"{path.rstrip('/')}/events", server.events) for path in PATHS),
        Route("/runs/{run}/results/{name}", server.download),
        Route("/runs/{run}/lines", server.lines),
        Route("/runs/{run}/usage", server.usage),
        Route("/runs/{run}/{action}", server.dialog),
        Route("/runs/{run}/{action}", server.done, methods=["POST"]),
        Route("/models/{model}/predict", server.predict, methods=["POST"]),
        Route("/schedules/{schedule}/{action}", server.dialog),
        Route("/schedules/{schedule}/{action}", server.done, methods=["POST"]),
        Route("/images/{action}", server.dialog),
        Route("/images/{action}", server.done, methods=["POST"]),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        cache.close()

    starlette = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: server.missing})
    return Guard(starlette, token, port, set(once))


def page_of(request: Request) -> Page:
    """Return the page of an address or of its events. Raises HTTPException for an invalid query."""
    if "run" in request.path_params:
        return RunPage(request.path_params["run"])
    if "study" in request.path_params:
        return StudyPage(request.path_params["study"])
    if "model" in request.path_params:
        return ModelPage(request.path_params["model"])
    match request.url.path.removesuffix("/events"):
        case "/studies":
            return Studies()
        case "/schedules":
            return Schedules()
        case "/hosts":
            return Hosts()
        case "/images":
            return Images()
        case "/models":
            return Models()
        case "/money":
            return Money(_month_in(request))
        case "/compare":
            return Compare(_runs_in(request))
        case _:
            return Runs(View.of(request.query_params))


def action_of(request: Request, typed: Mapping[str, str]) -> Callable[[Yard], str]:
    """Return the action of a form. Raises HTTPException for an unknown action."""
    run, action = request.path_params.get("run"), request.path_params["action"]
    if schedule := request.path_params.get("schedule"):
        if action in ("pause", "resume", "remove"):
            return lambda yard: actions.change_schedule(yard, schedule, action)
        raise HTTPException(404)
    match run, action:
        case None, "bake":
            return lambda yard: actions.bake(yard, force="force" in typed)
        case str(), "stop":
            return lambda yard: actions.stop(yard, run, now="now" in typed)
        case str(), "resume" | "rerun":
            return lambda yard: actions.rerun(yard, run, typed.get("set", ""), resume=action == "resume")
    raise HTTPException(404)


def _month_in(request: Request) -> datetime | None:
    text = request.query_params.get("month")
    try:
        return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC) if text else None
    except ValueError as error:
        raise HTTPException(404, f"{text} is not a month like 2026-11") from error


def _runs_in(request: Request) -> tuple[str, ...]:
    runs = tuple(dict.fromkeys(filter(None, request.query_params.get("runs", "").split(","))))
    if not 2 <= len(runs) <= MOST:
        raise HTTPException(404, f"a comparison takes 2 to {MOST} runs")
    return runs


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises HTTPException if the form is too large."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_TYPED:
            raise HTTPException(413)
    return {key: values[-1] for key, values in parse_qs(body.decode("utf-8", "replace")).items()}
