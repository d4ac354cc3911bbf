"""Only an unused dev host is stopped, after its page has shown a warning.

The test uses four hosts at once, because most of it is waiting, with a window of two minutes. GPUs count as busy from
90 %: the local cloud measures the processes of this computer, including JupyterLab.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

from tests.e2e.browser import Browser, driven
from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs
from tests.e2e.terminals import PROMPT, Terminal
from tests.e2e.users import person, words
from tests.e2e.watch import (
    LONG_AGO,
    SHORT_POLICY,
    act_on,
    ec2,
    launched,
    set_tags,
    shell,
    state,
    tag,
    until_it_is,
    verdicts,
)
from training.host.dev.idle.watch import METRIC
from training.host.reporting.gpus import NAMESPACE
from trainyard.client import Yard
from trainyard.values import serialization

NAMES = ("left", "runs", "types", "talked")
WINDOW = {**SHORT_POLICY, "idle_percent": 90}
BANNER = "#trainyard-idle"
AT_JUPYTER = """\
import json, sys
from pathlib import Path
from urllib.request import Request, urlopen
from tornado import ioloop, websocket
token = Path("/run/trainyard-jupyter/token").read_text().strip()
def post(path, said):
    headers = {"Authorization": "token " + token, "Content-Type": "application/json"}
    return json.load(urlopen(Request("http://127.0.0.1:8888" + path, json.dumps(said).encode(), headers)))
async def say(path, message, until):
    channel = await websocket.websocket_connect(f"ws://127.0.0.1:8888{path}?token={token}")
    await channel.write_message(json.dumps(message))
    while until not in str(await channel.read_message()):
        pass
"""
RUNS_A_CELL = """\
kernel = post("/api/kernels", {"name": "python3"})["id"]
header = {"msg_id": "1", "session": "s", "username": "", "msg_type": "execute_request", "version": "5.3"}
cell = {"code": "import time; print('be' + 'gun', flush=True); time.sleep(3600)", "ignore_progress": False}
message = {"header": header, "parent_header": {}, "metadata": {}, "content": cell, "channel": "shell"}
ioloop.IOLoop.current().run_sync(lambda: say(f"/api/kernels/{kernel}/channels", message, "begun"))
"""
RUNS_A_COMMAND = """\
name = post("/api/terminals", {})["name"]
line = "echo be''gun; sleep 3600" + chr(13)
ioloop.IOLoop.current().run_sync(lambda: say(f"/terminals/websocket/{name}", ["stdin", line], "begun"))
"""


@pytest.fixture
def hosts(runs: Runs) -> Iterator[dict[str, str]]:
    """Launch dev hosts with JupyterLab, with a hold until the test needs them."""
    own = [Runs(runs.cloud, Yard.find(session=runs.cloud.session())) for _ in NAMES]
    with ThreadPoolExecutor(len(NAMES)) as pool:
        found = dict(zip(NAMES, pool.map(dev_host, own, NAMES), strict=True))
    yield found
    ec2(runs).terminate_instances(InstanceIds=list(found.values()))
    for each in found.values():
        until_it_is(runs, each, "terminated")


def dev_host(runs: Runs, name: str) -> str:
    made = launched(
        runs, image=runs.yard.image(), instance_types=["g6.xlarge"], market="on_demand", hours=2
    ).summary
    host = str(made["instance"])
    set_tags(
        runs, host, dev=name, hold=serialization.timestamp(datetime.now(UTC) + timedelta(hours=1)), **WINDOW
    )
    shell(runs, host, "systemctl restart trainyard-host")
    serves = "test -e /run/trainyard-jupyter/token && curl -so /dev/null 127.0.0.1:8888/api && echo it does || true"
    runs.until(f"JupyterLab of {name} serves", lambda: shell(runs, host, serves) == "it does")
    return host


def does(runs: Runs, host: str, what: str) -> None:
    """Run a program through JupyterLab's server, without an open page."""
    program = base64.b64encode((AT_JUPYTER + what).encode()).decode()
    shell(runs, host, f"echo {program} | base64 -d | /opt/trainyard/jupyter/bin/python -")


def end_hold(runs: Runs, host: str) -> None:
    """End the hold of a host, so that its use decides."""
    set_tags(runs, host, hold=LONG_AGO)


def opened(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start the command that connects to the page, which ends with the host."""
    return subprocess.Popen(
        words("dev", "jupyter", "left", "--no-browser", "-o", "json", "--port", "0"),
        env=dict(environment),
        stdout=subprocess.PIPE,
        text=True,
    )


def held_until(runs: Runs, host: str) -> datetime:
    value = tag(runs, host, "trainyard:hold")
    return serialization.parse_timestamp(value) if value else datetime.fromtimestamp(0, UTC)


def check_unused_host(runs: Runs, hosts: dict[str, str], page: Browser) -> None:
    """Check the warning on the page, its button, the second warning, and the stop behind the open page."""
    mine = hosts["left"]
    end_hold(runs, mine)
    page.until("the warning", lambda: "This dev host is not in use" in page.text(BANNER))
    page.driver.find_element(By.CSS_SELECTOR, f"{BANNER} button").click()
    page.until("the banner disappears", lambda: page.text(BANNER) == "")
    now = datetime.now(UTC)
    assert timedelta(minutes=118) < held_until(runs, mine) - now < timedelta(minutes=122)
    for each in ("runs", "types", "talked"):  # the computation of their start is outside of the window
        end_hold(runs, hosts[each])
    set_tags(runs, mine, hold=serialization.timestamp(now + timedelta(minutes=3)))
    page.until_text("stopped", BANNER)
    until_it_is(runs, mine, "stopped")
    last = act_on(runs, mine)
    assert last["verdict"] == "stop-idle"
    assert "no kernel or terminal of it was in use in the last 2 min" in last["reason"]
    assert "has no session except a port forward" in last["reason"]


def check_kept(runs: Runs, host: str, word: str, use: int) -> None:
    """Check the verdict and the agent's metric.

    The reason is not compared, because another process of this computer may have kept the GPU busy.
    """
    assert state(runs, host) == "running"
    last = verdicts(runs, host)[-1]
    assert last["verdict"] == word, last
    assert in_use(runs, host) == use


def in_use(runs: Runs, host: str) -> float:
    """Return the last value of the metric."""
    metric = {"Namespace": NAMESPACE, "MetricName": METRIC}
    found = runs.yard.session.client("cloudwatch").get_metric_data(
        MetricDataQueries=[
            {
                "Id": "use",
                "MetricStat": {
                    "Metric": {**metric, "Dimensions": [{"Name": "InstanceId", "Value": host}]},
                    "Period": 60,
                    "Stat": "Maximum",
                },
            }
        ],
        StartTime=datetime.now(UTC) - timedelta(minutes=5),
        EndTime=datetime.now(UTC),
        ScanBy="TimestampDescending",
    )
    return float(found["MetricDataResults"][0]["Values"][0])


def test_a_dev_host_is_stopped_when_nobody_is_at_it_and_not_before(
    runs: Runs, hosts: dict[str, str], tmp_path: Path
) -> None:
    does(runs, hosts["runs"], RUNS_A_CELL)
    does(runs, hosts["types"], RUNS_A_COMMAND)
    with person(runs, "operator", "gail") as gail, opened(gail) as way, driven(tmp_path) as driver:
        sits = Terminal(gail, "shell", hosts["talked"])
        sits.until(PROMPT)
        assert way.stdout
        page = Browser(driver, json.loads(way.stdout.readline())["address"])
        driver.get(page.address)
        card = '.jp-LauncherCard[data-category="Notebook"]'
        page.until("the launcher", lambda: page.all(card))
        page.all(card)[0].click()
        idle = '.jp-Notebook-ExecutionIndicator[data-status="idle"]'
        page.until("a notebook with its kernel", lambda: page.all(idle))
        check_unused_host(runs, hosts, page)
        check_kept(runs, hosts["runs"], "keep-busy", 1)
        check_kept(runs, hosts["types"], "keep-busy", 2)
        check_kept(runs, hosts["talked"], "keep", 0)
        assert way.wait(PATIENCE) == 3
        sits.type("exit\r")
        assert sits.ended() == 0
    until_it_is(runs, hosts["talked"], "stopped")
