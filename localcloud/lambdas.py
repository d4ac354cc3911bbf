"""Functions: in a process of their own, with their own environment, credentials and packages, and true errors.

ministack starts one process per concurrent invocation and keeps it warm. Ours are what that process is given
(nothing of the server's environment, of its packages only what Lambda's runtime brings too) and how a
function's failure is reported: class name, message, stack trace.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.context import Context

log = logging.getLogger(__name__)

RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six.py")
"""What AWS's Python runtime brings; everything else has to come with the function or its layers."""
START_FAILED = "Worker init failed: "
PROCESS_GONE = re.compile(r"Worker process (died|exited immediately)")
TIMED_OUT = re.compile(r"Task timed out after [\d.]+ seconds")


def install(context: Context) -> None:
    """Isolate functions and report their errors as AWS does."""
    from ministack.core import lambda_runtime
    from ministack.services import lambda_svc

    home = context.state / "tmp" / "lambda"
    interpreter = make_runtime(home)
    worker = (Path(__file__).parent / "lambda_worker.py").read_text()
    stock_binary = lambda_runtime._detect_runtime_binary

    def runtime_of(runtime: str) -> tuple[str, str]:
        if runtime.startswith("python"):
            return str(interpreter), worker
        binary: tuple[str, str] = stock_binary(runtime)
        return binary

    lambda_runtime._detect_runtime_binary = runtime_of
    lambda_runtime.os = _OsWithEnvironment(environment(context, home))
    lambda_svc._execute_function_warm = execute


def make_runtime(home: Path) -> Path:
    """A folder with the runtime's packages, and a command that starts the base interpreter with only them."""
    packages = home / "runtime"
    packages.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME_PACKAGES:
        link = packages / name
        link.unlink(missing_ok=True)
        link.symlink_to(_location(name))
    command = home / "python"
    base = getattr(sys, "_base_executable", sys.executable)
    command.write_text(f'#!/bin/sh\nexec "{base}" -S -s "$@"\n')
    command.chmod(0o755)
    return command


def _location(package: str) -> Path:
    from importlib.util import find_spec

    spec = find_spec(package.removesuffix(".py"))
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the server has no {package}, which functions get from their runtime")
    origin = Path(spec.origin)
    return origin if package.endswith(".py") else origin.parent


def environment(context: Context, home: Path) -> dict[str, str]:
    """All that a function's process has besides its own variables and credentials."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "HOME": str(home),
        "TMPDIR": str(context.state / "tmp"),
        "PYTHONPATH": str(home / "runtime"),
        "PYTHONUNBUFFERED": "1",
        "AWS_ENDPOINT_URL": context.endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
    }


class _OsWithEnvironment:
    """The `os` that ministack's worker module sees: this environment, everything else as it is.

    It starts processes with a copy of `os.environ`; ours holds nothing of the server's.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def execute(function: dict[str, Any], event: Any, request_id: str) -> dict[str, Any]:
    """Invoke a function in a warm process; its answer, or its error as Lambda's runtime reports it."""
    from ministack.core import lambda_runtime
    from ministack.services import lambda_svc

    config = function.get("config") or function
    name, version = config["FunctionName"], config.get("Version", "$LATEST")
    code = function.get("code_zip")
    if not code:
        return _failed("Runtime.NoCode", f"function {name} has no code", "")
    lambda_svc._ensure_reaper_thread()
    worker, refusal = lambda_runtime.acquire_worker(name, config, code, qualifier=version)
    if worker is None:
        return dict(lambda_svc._throttle_response(reason_code=refusal, msg="Rate Exceeded."))
    try:
        answer = worker.invoke(
            event,
            request_id,
            trace_id=lambda_svc._xray_trace_id_for_invocation(config),
            invoked_function_arn=config.get("FunctionArn", ""),
            depth=lambda_svc._invoke_depth.get(),
            durable=lambda_svc._durable_env_overlay(),
        )
    except RuntimeError as error:
        return _did_not_start(str(error), request_id)
    finally:
        lambda_runtime.release_worker(worker)
    if answer.get("status") == "ok":
        return {"body": answer.get("result"), "log": answer.get("log", "")}
    return _raised(answer, request_id)


def _raised(answer: Mapping[str, Any], request_id: str) -> dict[str, Any]:
    text, printed = str(answer.get("error", "")), str(answer.get("log", ""))
    if "fault" in answer:
        return {"body": {**answer["fault"], "requestId": request_id}, "error": True, "log": printed}
    if TIMED_OUT.search(text):
        return _failed("Sandbox.Timedout", f"RequestId: {request_id} Error: {text}", printed)
    if PROCESS_GONE.search(text):
        message = f"RequestId: {request_id} Error: Runtime exited without providing a reason"
        return _failed("Runtime.ExitError", message, printed)
    return _failed("Runtime.HandlerError", text, printed)


def _did_not_start(text: str, request_id: str) -> dict[str, Any]:
    """The module could not be imported, or the process ended while it was."""
    log.warning("a function did not start: %s", text)
    if text.startswith(START_FAILED + "{"):
        fault = json.loads(text.removeprefix(START_FAILED))
        return {"body": {**fault, "requestId": request_id}, "error": True, "log": json.dumps(fault)}
    return _failed("Runtime.ExitError", f"RequestId: {request_id} Error: {text}", text)


def _failed(kind: str, message: str, printed: str) -> dict[str, Any]:
    return {"body": {"errorType": kind, "errorMessage": message}, "error": True, "log": printed}
