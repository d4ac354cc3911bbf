"""Who is at a dev host, on a deployed yard: one that is left alone is stopped after its page has said so, no other.

Four hosts at once, since most of it is waiting, with a window of two minutes. Their GPUs count from 90 percent on: they
are the processes of this computer, and JupyterLab's too.
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
from tests.e2e.persons import person, words
from tests.e2e.runs import Runs
from tests.e2e.terminals import PROMPT, Terminal
from tests.e2e.watch import (
    LONG_AGO,
    SOON,
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
WINDOW = {**SOON, "idle_percent": 90}
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
cell = {"code": "import time; print('be' + 'gun', flush=True); time.sleep(3600)", "silent": False}
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
    """Dev hosts by their names, with JupyterLab, which are held until it is their turn."""
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
    """By JupyterLab's own server, with no page open."""
    program = base64.b64encode((AT_JUPYTER + what).encode()).decode()
    shell(runs, host, f"echo {program} | base64 -d | /opt/trainyard/jupyter/bin/python -")


def let_go(runs: Runs, host: str) -> None:
    """From now on its use decides."""
    set_tags(runs, host, hold=LONG_AGO)


def opened(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """The command that holds the way to the page, which ends with the host."""
    return subprocess.Popen(
        words("dev", "jupyter", "left", "--no-browser", "-o", "json", "--port", "0"),
        env=dict(environment),
        stdout=subprocess.PIPE,
        text=True,
    )


def held_until(runs: Runs, host: str) -> datetime:
    said = tag(runs, host, "trainyard:hold")
    return serialization.parse_timestamp(said) if said else datetime.fromtimestamp(0, UTC)


def left_alone(runs: Runs, hosts: dict[str, str], page: Browser) -> None:
    """It warns, is kept by the key, warns before the hold is over, and is stopped with the page still open."""
    mine = hosts["left"]
    let_go(runs, mine)
    page.until("the warning", lambda: "This dev host is not in use" in page.text(BANNER))
    page.driver.find_element(By.CSS_SELECTOR, f"{BANNER} button").click()
    page.until("it goes", lambda: page.text(BANNER) == "")
    now = datetime.now(UTC)
    assert timedelta(minutes=118) < held_until(runs, mine) - now < timedelta(minutes=122)
    for each in ("runs", "types", "talked"):  # what their start has computed is out of the window
        let_go(runs, hosts[each])
    set_tags(runs, mine, hold=serialization.timestamp(now + timedelta(minutes=2)))
    page.until_text("stopped", BANNER)
    until_it_is(runs, mine, "stopped")
    last = act_on(runs, mine)
    assert last["verdict"] == "stop-idle"
    assert "no kernel and no terminal of it was in use in the last 2 min" in last["reason"]
    assert "has a session on it but for a forward of a port" in last["reason"]


def is_kept(runs: Runs, host: str, word: str, use: int) -> None:
    """By what its agent tells of it. The reason that is written is that of the first look, at which another process of
    this computer may have made its GPU busy."""
    assert state(runs, host) == "running"
    last = verdicts(runs, host)[-1]
    assert last["verdict"] == word, last
    assert in_use(runs, host) == use


def in_use(runs: Runs, host: str) -> float:
    """The metric's last value."""
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
        left_alone(runs, hosts, page)
        is_kept(runs, hosts["runs"], "keep-busy", 1)
        is_kept(runs, hosts["types"], "keep-busy", 2)
        is_kept(runs, hosts["talked"], "keep", 0)
        assert way.wait(PATIENCE) == 3
        sits.type("exit\r")
        assert sits.ended() == 0
    until_it_is(runs, hosts["talked"], "stopped")
