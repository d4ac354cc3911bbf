"""The server process: ministack with all parts of the local cloud, inside the supervisor's namespaces.

`supervisor` starts it as `python -m localcloud.server.main`. The order below matters: the environment (ministack reads
it when it is imported), hosts and network, installs, saved state, serving.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

from localcloud.base import descriptors, root_key
from localcloud.base.context import ACCOUNT, REGION, Context
from localcloud.base.settings import Settings
from localcloud.base.state import KEPT, Store
from localcloud.machine.hypervisor import ENDPOINT_ADDRESS, Hypervisor
from localcloud.patches import MINISTACK
from localcloud.server import admin, gate

log = logging.getLogger("localcloud.server.main")

DRAIN_SECONDS = 1.0
HTTPS = 443
WORKERS = 64
"""Number of request threads. All are created at the start."""
GC_THRESHOLDS = (50_000, 20, 100)
"""Thresholds of Python's garbage collector.

With the defaults it takes a fifth of this server's time for little gain.
"""
QUIET_LOGGERS = ("hypercorn.access", "hypercorn.error", "botocore", "urllib3", "persistence", "werkzeug")


def main() -> None:
    """Serve until SIGTERM, then write all state and exit."""
    gc.set_threshold(*GC_THRESHOLDS)
    arguments = _arguments()
    descriptors.raise_limit()
    set_environment(arguments.state, arguments.port)
    store = Store(arguments.state / KEPT)
    context = Context(arguments.state, arguments.port, store, Settings.load(arguments.settings))
    hypervisor = Hypervisor(context.state, context.port)
    for image_id, image in context.settings.images.items():
        wheels = Path(image.wheels) if image.wheels else None
        hypervisor.provide_base_image(image_id, image.files, wheels)
    install_everything(context, hypervisor)
    gc.freeze()  # objects that exist now live until exit
    serve(context, hypervisor, listening_socket=arguments.socket)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="The local cloud's server; `python -m localcloud up` starts it."
    )
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--socket", type=int, required=True, help="file descriptor that listens outside")
    parser.add_argument("--settings", type=Path, default=None)
    return parser.parse_args()


def set_environment(state: Path, port: int) -> None:
    """Set the variables that ministack and moto read at import. None of them reaches a Lambda or a host."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "MINISTACK_", "LOCALSTACK_"))]:
        del os.environ[name]
    temporary = state / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)  # temporary files of functions of a killed server
    temporary.mkdir(parents=True, exist_ok=True)
    os.environ.update(
        AUTH="true",
        BIND_HOST="127.0.0.1",
        GATEWAY_PORT=str(port),
        IOT_MTLS_ENABLED="0",
        SFTP_ENABLED="0",
        DOCKER_HOST=f"unix://{state}/no-docker-here",
        LAMBDA_EXECUTOR="local",
        MINISTACK_ACCOUNT_ID=ACCOUNT,
        MINISTACK_REGION=REGION,
        MOTO_EC2_LOAD_DEFAULT_AMIS="false",
        MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION="true",
        STATE_DIR=str(state / "ministack"),
        S3_PERSIST="1",
        S3_DATA_DIR=str(state / "s3"),
        TMPDIR=str(temporary),
        MINISTACK_WORKER_THREADS=str(WORKERS),
        LOG_LEVEL=os.environ.get("LOCALCLOUD_LOG", "INFO"),
        # botocore requires a region, although moto's own boto3 calls stay in this process
        AWS_DEFAULT_REGION=REGION,
        AWS_EC2_METADATA_DISABLED="true",
    )


def install_everything(context: Context, hypervisor: Hypervisor) -> None:
    """Install every part, each around the earlier ones. Saved state is restored when the server starts to serve."""
    from localcloud.server import (
        call_counts,
        expiry,
        faults,
        ministack_state,
        regions,
        status,
        strictness,
        throttling,
        unknown_services,
    )
    from localcloud.services import (
        cloudformation,
        dynamodb,
        iam,
        kms,
        pricing,
        s3,
        scheduler,
        servicequotas,
        ssm,
        stepfunctions,
        sts,
    )
    from localcloud.services.cloudwatch import (
        alarms,
        embedded,
        gpu_metrics,
        instance_metrics,
        metrics,
    )
    from localcloud.services.cloudwatch.insights import query as insights
    from localcloud.services.ec2 import install as ec2
    from localcloud.services.eventbridge import rules, service_events, targets
    from localcloud.services.file_systems import api as file_systems
    from localcloud.services.lambdas import concurrency, function_urls, functions

    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    service_events.install()
    ministack_state.install(context)
    iam.install(root_key.load_key(context.state))
    s3.install(context)
    sts.install()
    kms.install()
    dynamodb.install(context.settings)
    cloudformation.install()
    functions.install(context)
    function_urls.install(context)
    concurrency.install(context)
    rules.install()
    targets.install()
    scheduler.install()
    stepfunctions.install(context)
    faults.install(ec2.install(context, hypervisor))
    file_systems.install(context, hypervisor)
    metrics.install()
    embedded.install()
    alarms.install(context)
    insights.install()
    gpu_metrics.install(context, hypervisor)
    instance_metrics.install(context, hypervisor)
    servicequotas.install(context)
    pricing.install(context)
    ssm.install(context, hypervisor)
    strictness.install()
    throttling.install(context.settings)
    regions.install()
    unknown_services.install()
    expiry.install()
    call_counts.install()
    status.install(context, hypervisor)
    MINISTACK.replace("app:PERSIST_STATE", True)
    MINISTACK.replace("app:_load_persisted_state", lambda: _start_workers(context))
    MINISTACK.replace("app:save_all", lambda states: None)


def _start_workers(context: Context) -> None:
    """Create all worker threads and restore saved state. Runs in ministack's event loop."""
    barrier = threading.Barrier(WORKERS)
    for _ in range(WORKERS):  # otherwise the pool grows with each burst of calls and never shrinks
        asyncio.get_running_loop().run_in_executor(None, barrier.wait)
    context.store.restore()


def serve(context: Context, hypervisor: Hypervisor, listening_socket: int) -> None:
    """Serve on the socket outside the namespaces, on loopback inside, and on the hosts' address; inside also the
    registries' names by TLS."""
    from hypercorn.asyncio import serve as hypercorn_serve
    from hypercorn.config import Config
    from ministack import app as ministack_app

    from localcloud.server import connections
    from localcloud.services.ecr import api, certificate
    from localcloud.services.ecr.access import Access
    from localcloud.services.ecr.registry import Registry

    connections.install()
    config = Config()
    registry = certificate.prepare(context.state)
    config.certfile, config.keyfile = str(registry.certificate), str(registry.key)
    config.alpn_protocols = ["http/1.1"]
    config.bind = [f"{address}:{HTTPS}" for address in ("127.0.0.1", ENDPOINT_ADDRESS)]
    config.insecure_bind = [
        f"fd://{listening_socket}",
        f"127.0.0.1:{context.port}",
        f"{ENDPOINT_ADDRESS}:{context.port}",
    ]
    config.keep_alive_timeout = connections.IDLE_SECONDS
    config.graceful_timeout = DRAIN_SECONDS
    config.shutdown_timeout = DRAIN_SECONDS
    config.loglevel = "WARNING"
    threading.Thread(target=context.store.write_forever, name="state", daemon=True).start()
    root = root_key.load_key(context.state)
    inner = admin.with_admin_routes(_track_changes(ministack_app.app, context), root)
    given = Access(root)
    registries = Registry(inner, given, context.store.request_write)
    api.install(given, registries)
    application: Any = gate.with_gate(registries)
    asyncio.run(_serve_until_terminated(hypercorn_serve, application, config))
    hypervisor.close()
    context.store.write()
    log.info("all state is written")
    logging.shutdown()
    # Threads of executions, schedules and hosts keep running: the namespaces end with this process.
    os._exit(0)


async def _serve_until_terminated(hypercorn_serve: Any, application: Any, config: Any) -> None:
    terminated = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, terminated.set)
    await hypercorn_serve(application, config, shutdown_trigger=terminated.wait)


def _track_changes(application: admin.Application, context: Context) -> admin.Application:
    """Request a write of state after each request, because it or its background work may change something."""

    async def tracking(scope: admin.Scope, receive: admin.Receive, send: admin.Send) -> None:
        try:
            await application(scope, receive, send)
        finally:
            if scope["type"] == "http" and not str(scope["path"]).startswith("/_"):
                context.store.request_write()

    return tracking


if __name__ == "__main__":
    main()
