"""Functions in processes with their own environment, credentials and packages, and with AWS's error reports.

ministack starts one process for each concurrent invocation and keeps it warm. This module determines the environment of
that process (nothing from the server, and only the packages of Lambda's runtime) and reports failures like AWS: class
name, message, stack trace.
"""

from __future__ import annotations

import contextvars
import functools
import json
import logging
import os
import queue
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from localcloud.base import registries
from localcloud.machine.kernel import CLONE_NEWPID, alone, check_result, libc
from localcloud.patches import MINISTACK
from localcloud.services.cloudwatch import metrics
from localcloud.services.lambdas.sandbox import RUNTIME, TASK, TRUSTED
from localcloud.services.lambdas.worker import END_OF_LOG

if TYPE_CHECKING:
    from localcloud.base.context import Context
from localcloud.services.lambdas.archives import Unpacked, archives_of_functions, layers_of

log = logging.getLogger(__name__)

RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six.py")
"""Packages of AWS's Python runtime. All others must come with the function or its layers."""
INTERPRETER = (getattr(sys, "_base_executable", sys.executable), "-S", "-s", "-P", "-c")
SANDBOX = alone("localcloud.services.lambdas.sandbox")
MOST_RESULT_BYTES = 6_291_556
"""The largest result of a function."""
TMP_MIB = 512
"""Default size of /tmp."""
IDLE_SECONDS = 900.0
"""Seconds until an idle process ends. AWS documents no value."""
STARTS = threading.BoundedSemaphore(2 * len(os.sched_getaffinity(0)))
"""Limits concurrent starts, because each takes a second of processor time.

A hundred at once, beside the endpoint that they all call, would time out and be retried.
"""
STARTER = "function-starter"
"""Name of the threads that start functions' processes."""
TURN_SECONDS = 60.0
"""Longest wait of a start for its turn, because an earlier start may hang."""
START_FAILED = "Worker init failed: "
PROCESS_GONE = re.compile(r"Worker process (died|exited immediately)")
TIMED_OUT = re.compile(r"Task timed out after [\d.]+ seconds")
LAST_LINES_SECONDS = 2.0
"""Longest wait for the log of an ended process, because a child process may keep it open."""

Function = dict[str, Any]
"""A function or version as ministack stores it."""


class Answer(TypedDict, total=False):
    """An invocation's result in ministack's format."""

    body: Any
    error: bool
    log: str
    throttle: bool


_peak: contextvars.ContextVar[int] = contextvars.ContextVar("peak_megabytes", default=0)
"""Peak memory of the process that the current context invoked last."""


def install(context: Context) -> None:
    """Isolate functions and report their errors like AWS."""
    home = context.state / "lambda"
    unpacked = Unpacked(home / "unpacked")
    Process = process_class(context, home, unpacked)
    stock_class = MINISTACK.stock("core.lambda_runtime:_worker_class_for")

    def class_for(config: Mapping[str, Any]) -> Any:
        return Process if str(config.get("Runtime", "")).startswith("python") else stock_class(config)

    MINISTACK.replace("core.lambda_runtime:_worker_class_for", class_for)
    MINISTACK.replace("services.lambda_svc:_execute_function_warm", execute)
    MINISTACK.replace("services.lambda_svc:reap_idle_workers", lambda: tidy_up(unpacked))
    MINISTACK.replace("services.lambda_svc:_emit_lambda_metrics", count_throttle)
    MINISTACK.replace("services.lambda_svc:_probe_peak_memory_mb", lambda function: _peak.get())
    retry_seconds = float(context.settings.latencies.function_retry)
    MINISTACK.replace("services.lambda_svc:_LAMBDA_ASYNC_RETRY_BASE_SECONDS", retry_seconds)
    MINISTACK.replace("services.lambda_svc:_LAMBDA_ASYNC_RETRY_MAX_SECONDS", 2 * retry_seconds)


def tidy_up(unpacked: Unpacked) -> None:
    """End processes that were idle for too long, and remove replaced code. ministack calls this at intervals."""
    end_idle()
    unpacked.keep_only(archives_of_functions())


def end_idle() -> None:
    """End idle processes. ministack would keep the first one of each function forever."""
    from ministack.core import lambda_runtime

    lambda_runtime.reap_idle_workers()
    since = time.time() - IDLE_SECONDS
    with lambda_runtime._lock:
        idle = [
            (pool, worker)
            for pool in lambda_runtime._workers.values()
            for worker in pool
            if not worker.in_use and worker.last_used < since
        ]
        for pool, worker in idle:
            pool.remove(worker)
    lambda_runtime.kill_workers([worker for _, worker in idle])


def process_class(context: Context, home: Path, unpacked: Unpacked) -> Any:
    """Return ministack's worker class with our process start. Created here, because its base requires ministack."""
    Worker: Any = MINISTACK.stock("core.lambda_runtime:Worker")
    root, packages = home / "root", [str(_location(name)) for name in RUNTIME_PACKAGES]
    root.mkdir(parents=True, exist_ok=True)

    class FunctionProcess(Worker):
        def _spawn(self) -> None:
            has_turn = STARTS.acquire(timeout=TURN_SECONDS)
            try:
                self._start()
            finally:
                if has_turn:
                    STARTS.release()

        def _start(self) -> None:
            code, *layers = unpacked.folders(self, [self.code_zip, *layers_of(self.config)])
            environment = environment_of(self.config, context)
            module, _, handler = str(self.config.get("Handler", "index.handler")).rpartition(".")
            sandbox = {
                "root": str(root),
                "code": str(code),
                "layers": [str(layer) for layer in layers],
                "packages": packages,
                "names": registries.hosts_lines("127.0.0.1"),
                "trusted": str(registries.trusted_in(context.state)),
                "python_home": sys.base_prefix,
                "tmp_mib": (self.config.get("EphemeralStorage") or {}).get("Size", TMP_MIB),
            }
            process = self._proc = start_apart([*INTERPRETER, SANDBOX, json.dumps(sandbox)], environment)
            assert process.stdin
            assert process.stdout
            self._stderr_queue: queue.Queue[str] = queue.Queue()
            self._stderr_thread = threading.Thread(target=self._read_stderr, daemon=True)
            self._stderr_thread.start()
            start = {
                "code_dir": TASK,
                "module": module.replace("/", "."),
                "handler": handler,
                "function_name": self.config.get("FunctionName", ""),
                "memory": self.config.get("MemorySize", 128),
                "arn": self.config.get("FunctionArn", ""),
            }
            process.stdin.write(json.dumps(start) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"Worker process exited immediately. {self._drain_stderr_bounded()}")
            answer = json.loads(line)
            if answer["status"] != "ready":
                raise RuntimeError(START_FAILED + answer["error"])
            self._start_time = time.time()

        def _drain_stderr(self, **_: float) -> str:
            """Return the whole log of an invocation. ministack takes only what arrives within milliseconds."""
            process: subprocess.Popen[str] | None = self._proc
            _peak.set(peak_megabytes(process.pid) if process else 0)
            return read_output(self._stderr_queue, self._stderr_thread)

        _drain_stderr_bounded = _drain_stderr

    return FunctionProcess


def start_apart(command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a process as the first of a process namespace, where it can neither see nor reach other processes.

    A separate thread starts it, because a thread's namespace for children accepts only one first process. The thread
    lives as long as the process, because PR_SET_PDEATHSIG kills a process when its starting thread ends.
    """
    started: Future[subprocess.Popen[str]] = Future()

    def start_and_wait() -> None:
        try:
            check_result(libc.unshare(CLONE_NEWPID), "make a function's process namespace")
            process = subprocess.Popen(
                command,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                bufsize=1,
                env=environment,
            )
        except Exception as error:  # noqa: BLE001 - the caller gets it
            started.set_exception(error)
            return
        started.set_result(process)
        with suppress(ChildProcessError):  # its end was already handled
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    threading.Thread(target=start_and_wait, name=STARTER, daemon=True).start()
    return started.result()


def peak_megabytes(pid: int) -> int:
    """Return the peak memory of a process, or 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return -(-int(found[1]) // 1024) if found else 0


def read_output(lines: queue.Queue[str], reader: threading.Thread) -> str:
    """Return an invocation's output, up to the end marker of its log or the end of the process."""
    found: list[str] = []
    ends = time.monotonic() + LAST_LINES_SECONDS
    while time.monotonic() < ends:
        try:
            line = lines.get(timeout=0.05)
        except queue.Empty:
            if reader.is_alive():
                continue
            break
        if line.endswith(END_OF_LOG):
            unfinished = line.removesuffix(END_OF_LOG)
            return "\n".join([*found, unfinished] if unfinished else found)
        found.append(line)
    return "\n".join(found)


def _location(package: str) -> Path:
    from importlib.util import find_spec

    spec = find_spec(package.removesuffix(".py"))
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the server has no {package}, which functions get from their runtime")
    origin = Path(spec.origin)
    return origin if package.endswith(".py") else origin.parent


def environment_of(config: Mapping[str, Any], context: Context) -> dict[str, str]:
    """Return all environment variables of a function's process: its own, credentials, and Lambda's."""
    name = str(config["FunctionName"])
    group = (config.get("LoggingConfig") or {}).get("LogGroup") or f"/aws/lambda/{name}"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "HOME": "/tmp",  # noqa: S108 - the function's own
        "PYTHONPATH": RUNTIME,
        "AWS_ENDPOINT_URL": context.endpoint,
        "SSL_CERT_FILE": TRUSTED,
        **((config.get("Environment") or {}).get("Variables") or {}),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{version}",
        "AWS_REGION": context.region,
        "AWS_DEFAULT_REGION": context.region,
        "AWS_LAMBDA_FUNCTION_NAME": name,
        "AWS_LAMBDA_FUNCTION_VERSION": str(config.get("Version", "$LATEST")),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(config.get("MemorySize", 128)),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": str(group),
        "AWS_LAMBDA_LOG_STREAM_NAME": f"{time.strftime('%Y/%m/%d')}/[$LATEST]{secrets.token_hex(16)}",
        "LAMBDA_TASK_ROOT": TASK,
        "_HANDLER": str(config.get("Handler", "")),
        **credentials_of(str(config["FunctionArn"]), str(config.get("Role", "")), name),
    }


@functools.cache
def credentials_of(function_arn: str, role_arn: str, name: str) -> dict[str, str]:
    """Return credentials of the function's role, the same until this server ends.

    ministack derives them from the two ARNs, so that any caller who knows the names can sign as the function.
    """
    from ministack.services import iam, sts

    account, role = function_arn.split(":")[4], role_arn.rsplit("/", 1)[-1]
    key, secret, token = iam._gen_session_access_key(), iam._gen_secret(), iam._gen_session_token()
    session = {
        "Arn": f"arn:aws:sts::{account}:assumed-role/{role}/{name[:64]}",
        "UserId": f"{role}:{name[:64]}",
        "SecretAccessKey": secret,
        "SessionToken": token,
    }
    sts.register_session(key, session)
    return {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": token}


def count_throttle(function_name: str, duration_ms: float, error: bool, throttle: bool) -> None:
    """Count throttled invocations. ministack also calls this for other invocations, which `execute` counts."""
    if throttle and not duration_ms:
        metrics.count("AWS/Lambda", "Throttles", 1.0, "Count", {"FunctionName": function_name})


def execute(function: Function, event: Any, request_id: str) -> Answer:
    """Invoke a function and record `Invocations`, `Errors` and `Duration`, or `Throttles`, in CloudWatch."""
    name, began = (function.get("config") or function)["FunctionName"], time.monotonic()
    answer = _within_limit(_execute(function, event, request_id))
    milliseconds = round(1000 * (time.monotonic() - began))
    if answer.get("throttle"):
        count_throttle(name, 0.0, error=False, throttle=True)
        return answer
    failed = 1.0 if answer.get("error") else 0.0
    for metric, value, unit in (
        ("Invocations", 1.0, "Count"),
        ("Errors", failed, "Count"),
        ("Throttles", 0.0, "Count"),
        ("Duration", milliseconds, "Milliseconds"),
    ):
        metrics.count("AWS/Lambda", metric, float(value), unit, {"FunctionName": name})
    return answer


def _within_limit(answer: Answer) -> Answer:
    """Replace a result that is too large by Lambda's error report."""
    size = len(json.dumps(answer.get("body"), ensure_ascii=False).encode())
    if size <= MOST_RESULT_BYTES or answer.get("error"):
        return answer
    said = f"Response payload size ({size} bytes) exceeded maximum allowed payload size ({MOST_RESULT_BYTES} bytes)."
    return _failed_answer("Function.ResponseSizeTooLarge", said, answer.get("log", ""))


def _execute(function: Function, event: Any, request_id: str) -> Answer:
    """Invoke a function in a warm process. Return its result or Lambda's error report."""
    from ministack.core import lambda_runtime
    from ministack.services import lambda_svc

    config = function.get("config") or function
    name, version = config["FunctionName"], config.get("Version", "$LATEST")
    code = function.get("code_zip")
    if not code:
        return _failed_answer("Runtime.NoCode", f"function {name} has no code", "")
    lambda_svc._ensure_reaper_thread()
    worker, refusal = lambda_runtime.acquire_worker(name, config, code, qualifier=version)
    if worker is None:
        refused: Answer = lambda_svc._throttle_response(reason_code=refusal, msg="Rate Exceeded.")
        return refused
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
    return _raised_error(answer, request_id)


def _raised_error(answer: Mapping[str, Any], request_id: str) -> Answer:
    text, output = str(answer.get("error", "")), str(answer.get("log", ""))
    if "fault" in answer:
        return {"body": {**answer["fault"], "requestId": request_id}, "error": True, "log": output}
    if TIMED_OUT.search(text):
        return _failed_answer("Sandbox.Timedout", f"RequestId: {request_id} Error: {text}", output)
    if PROCESS_GONE.search(text):
        message = f"RequestId: {request_id} Error: Runtime exited without providing a reason"
        return _failed_answer("Runtime.ExitError", message, output)
    return _failed_answer("Runtime.HandlerError", text, output)


def _did_not_start(text: str, request_id: str) -> Answer:
    """Report that the module could not be imported, or that the process ended during the import."""
    log.warning("a function did not start: %s", text)
    if text.startswith(START_FAILED + "{"):
        fault = json.loads(text.removeprefix(START_FAILED))
        return {"body": {**fault, "requestId": request_id}, "error": True, "log": json.dumps(fault)}
    return _failed_answer("Runtime.ExitError", f"RequestId: {request_id} Error: {text}", text)


def _failed_answer(kind: str, message: str, output: str) -> Answer:
    return {"body": {"errorType": kind, "errorMessage": message}, "error": True, "log": output}
