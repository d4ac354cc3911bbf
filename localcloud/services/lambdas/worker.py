"""The program inside a function's process: load the handler, then answer one invocation for each line of input.

`sandbox` runs it with the base interpreter, without the server's packages. It uses ministack's worker protocol on the
original stdout. Output of the function goes to its log (stderr).
"""

import gc
import importlib
import json
import os
import sys
import time
import traceback
from typing import Any

FAULT_OF_IMPORT = "Runtime.ImportModuleError"
NICENESS = 5
"""Niceness of a function's process relative to the endpoint, which answers the calls of all functions."""
END_OF_LOG = "\x1eend of this invocation's log"
"""Line on stderr after the output of an invocation and its children."""


class Context:
    """The context object of an invocation."""

    identity = None
    client_context = None

    def __init__(self, init: dict[str, Any], call: dict[str, Any]) -> None:
        name = init["function_name"]
        self.function_name = name
        self.function_version = os.environ.get("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        self.memory_limit_in_mb = str(init.get("memory", 128))
        self.invoked_function_arn = call.get("invoked_function_arn") or init.get("arn", "")
        self.aws_request_id = call.get("request_id", "")
        self.log_group_name = os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", f"/aws/lambda/{name}")
        self.log_stream_name = os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", "")
        self._deadline = time.time() + float(call.get("timeout_ms") or 3000) / 1000

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the timeout."""
        return max(0, int((self._deadline - time.time()) * 1000))


def main() -> None:
    """Load the handler, then answer until stdin closes."""
    os.nice(NICENESS)
    gc.set_threshold(50_000, 20, 100)  # imported objects are permanent
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the function and its children must not mix with the answers
    sys.stdout = sys.stderr
    init = json.loads(sys.stdin.readline())
    make_path(init["code_dir"])

    def send(**answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        handler = getattr(importlib.import_module(init["module"]), init["handler"])
    except BaseException as error:  # noqa: BLE001 - sys.exit at import fails the start too
        send(status="error", error=json.dumps(fault_of_start(error, init)))
        return
    send(status="ready", cold=True)
    for line in sys.stdin:
        message = json.loads(line)
        call = message.get("ctx") or {}
        trace = call.get("trace_id")
        os.environ.update({"_X_AMZN_TRACE_ID": trace} if trace else {})
        try:
            result = handler(message["event"], Context(init, call))
            answer = {"status": "ok", "result": json.loads(json.dumps(result))}
        except Exception as error:  # noqa: BLE001 - the caller is told what the function raised
            print(f"[ERROR] {type(error).__name__}: {error}\n{traceback.format_exc()}", flush=True)
            answer = {"status": "error", "error": str(error), "fault": fault(error), "trace": ""}
        end_log()
        send(**answer)


def end_log() -> None:
    """Write the marker to the original stderr, because the handler may have replaced sys.stderr."""
    sys.stderr.flush()
    os.write(2, f"{END_OF_LOG}\n".encode())


def make_path(code: str) -> None:
    """Order the path as on AWS: the function's own code, its layers, then the runtime."""
    import site

    runtime = sys.path[:]
    sys.path[:] = [code]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for folder in (f"/opt/python/lib/{version}/site-packages", "/opt/python"):
        if os.path.isdir(folder):  # noqa: PTH112 - no pathlib: a cold start is paid for every import
            site.addsitedir(folder)
            if folder not in sys.path:
                sys.path.append(folder)
    sys.path += runtime


def fault(error: BaseException) -> dict[str, Any]:
    """Return the runtime's report of an error. Retry and Catch match its class name."""
    frames = traceback.format_list(traceback.extract_tb(error.__traceback__)[1:])
    return {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": frames}


def fault_of_start(error: BaseException, init: dict[str, Any]) -> dict[str, Any]:
    """Return the runtime's report of a handler that could not be loaded."""
    module, name = init["module"], init["handler"]
    if isinstance(error, ImportError):
        message = f"Unable to import module '{module}': {error}"
        return {"errorMessage": message, "errorType": FAULT_OF_IMPORT, "stackTrace": []}
    if isinstance(error, AttributeError) and str(error).endswith(f"has no attribute '{name}'"):
        message = f"Handler '{name}' missing on module '{module}'"
        return {"errorMessage": message, "errorType": "Runtime.HandlerNotFound", "stackTrace": []}
    return fault(error)
