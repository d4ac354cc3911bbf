"""JupyterLab of a dev host in Chromium, through the connection of `trainyard dev jupyter`.

TRAINYARD_PICTURES=folder saves a picture (for docs/pictures).
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from selenium.webdriver.common.keys import Keys

from tests.e2e.browser import Browser, driven
from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs
from tests.e2e.terminals import ACCOUNT, active
from tests.e2e.users import done, person, words
from tests.e2e.watch import ec2, set_tags, shell, until_it_is
from trainyard.client.dev import hosts

NAME = "desk"
UNIT = "trainyard-jupyter"
HOME = "/home/ssm-user" if os.geteuid() == 0 else "/root"
TRAINS = """\
import getpass, keras, numpy, trainyard.client
keras.utils.set_random_seed(7)
x = numpy.random.rand(2000, 8)
y = x.sum(axis=1, keepdims=True) > 4
model = keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dense(1, "sigmoid")])
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
history = model.fit(x, y, epochs=8, verbose=2).history
print(getpass.getuser(), "trained it:", history["loss"][-1] < history["loss"][0])"""


@contextmanager
def desk(runs: Runs, owner: Mapping[str, str]) -> Iterator[str]:
    """Yield the dev host of a user."""
    code, _, err = done(owner, "dev", "up", NAME, "--type", "g6.xlarge", "--hours", "2")
    assert code == 0, err
    host = hosts.find(runs.yard, NAME).instance
    set_tags(runs, host, window_minutes=60)
    try:
        yield host
    finally:
        ec2(runs).terminate_instances(InstanceIds=[host])
        until_it_is(runs, host, "terminated")


class Held:
    """The command that connects to the page."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self.heard: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert process.stdout
        self.address = str(json.loads(process.stdout.readline() or self.next_line())["address"])

    def _read(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self.heard.append(line)
            self._lines.put(line)

    def ended(self) -> int:
        """Send Ctrl-C and return the exit code."""
        self._process.send_signal(signal.SIGINT)
        with self._process:  # closes its output
            self._reader.join(PATIENCE)
            return self._process.wait(PATIENCE)

    def next_line(self) -> str:
        """Return the next line of output."""
        return self._lines.get(timeout=PATIENCE)

    def status(self, path: str, **headers: str) -> int:
        """Return the status of a request through the connection."""
        parts = urlsplit(self.address)
        try:
            with urlopen(Request(f"http://{parts.netloc}{path}", headers=headers), timeout=30) as answer:
                return int(answer.status)
        except HTTPError as refused:
            return refused.code
        except OSError:
            return 0

    @property
    def token(self) -> str:
        return self.address.partition("token=")[2]


@contextmanager
def held(environment: Mapping[str, str], *given: str) -> Iterator[Held]:
    process = subprocess.Popen(
        words("dev", *given, "--no-browser", "-o", "json", "--port", "0"),
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    page = Held(process)
    try:
        yield page
    finally:
        assert page.ended() == 130, page.heard


def a_cell_trains_a_model(jupyter: Held, folder: Path) -> None:
    with driven(folder) as driver:
        page = Browser(driver, jupyter.address)
        driver.get(jupyter.address)
        card = '.jp-LauncherCard[data-category="Notebook"]'
        page.until("the launcher", lambda: page.all(card))
        assert "Python 3 (TensorFlow)" in page.text(card)
        page.all(card)[0].click()
        page.until(
            "a cell to type into",
            lambda: "cm-content" in str(driver.switch_to.active_element.get_attribute("class")),
        )
        # the indicator beside the cells shows idle before the kernel exists, and a cell that is run then is skipped
        page.until_text("Python 3 (TensorFlow) | Idle", "#jp-main-statusbar")
        page.type(TRAINS)
        page.type(Keys.SHIFT + Keys.ENTER)
        page.until_text(f"{ACCOUNT} trained it: True", ".jp-Cell-outputArea")
        assert "Epoch 8/8" in page.text(".jp-Cell-outputArea")
        if pictures := os.environ.get("TRAINYARD_PICTURES"):
            driver.save_screenshot(str(Path(pictures, "dev-jupyter.png")))
        assert page.origins <= {page.address.partition("/lab")[0]}


def nobody_is_in_without_the_token(runs: Runs, desk: str, jupyter: Held) -> None:
    assert jupyter.status("/api/kernels") == 403
    assert jupyter.status("/api/kernels", Authorization=f"token {jupyter.token}") == 200
    assert shell(runs, desk, "stat -c '%a %U' /run/trainyard-jupyter/token") == f"600 {ACCOUNT}"
    assert shell(runs, desk, f"ls {HOME}/*.ipynb") == f"{HOME}/Untitled.ipynb"


def killed_it_is_started_again(runs: Runs, desk: str, jupyter: Held) -> None:
    shell(runs, desk, f"systemctl kill -s SIGKILL {UNIT}")
    runs.until("it serves again, to the same address", lambda: jupyter.status("/lab") == 200)


def a_session_that_is_ended_is_followed_by_another(runs: Runs, desk: str, jupyter: Held) -> None:
    for session in active(runs, desk):
        runs.yard.session.client("ssm").terminate_session(SessionId=session["SessionId"])
    while "beginning another" not in jupyter.next_line():
        pass
    runs.until("the same address leads there", lambda: jupyter.status("/lab") == 200)


def one_that_always_dies_says_why(runs: Runs, desk: str, environment: Mapping[str, str]) -> None:
    settings = f"{HOME}/.jupyter/jupyter_server_config.py"
    broken = f"mkdir -p {HOME}/.jupyter && echo 'raise SystemExit(\"broken by hand\")' >{settings}"
    shell(runs, desk, f"{broken} && systemctl restart {UNIT}")
    does_not_answer = f"JupyterLab of {NAME} does not answer"
    err = does_not_answer
    while does_not_answer in err:  # after its third end it stays down, later on a busy machine
        code, _, err = done(environment, "dev", "jupyter", NAME, "--port", "0")
        assert code == 3, err
    assert f"JupyterLab of {NAME} ends each time it is started" in err
    assert "broken by hand" in err
    shell(runs, desk, f"rm {settings}; systemctl reset-failed {UNIT}; systemctl start {UNIT}")
    with held(environment, "jupyter", NAME) as mended:
        assert mended.status("/lab", Authorization=f"token {mended.token}") == 200


def tensorboard_ends_with_the_command(runs: Runs, desk: str, environment: Mapping[str, str]) -> None:
    shell(runs, desk, f"mkdir -p {HOME}/fit/train && chown -R {ACCOUNT} {HOME}/fit")
    with held(environment, "tensorboard", NAME, "--logdir", "fit") as board:
        assert board.status("/data/environment") == 200
        assert shell(runs, desk, "pgrep -f -- '--logdir [f]it'")
    runs.until("it has ended there", lambda: not shell(runs, desk, "pgrep -f -- '--logdir [f]it' || true"))


JOB = """\
name: from-the-desk
program: {source: ./mine, command: [python, says.py], args: []}
hardware: {instance_types: [g6.xlarge], market: on_demand}
limits: {hours: 1, dollars: 5}
"""
SAYS = "import sys, time; print('typed there', flush=True); time.sleep(float((sys.argv + ['0'])[1]))"
PUTS = (
    "/opt/trainyard/venv/bin/python -c "
    "'import boto3, sys; boto3.client(\"s3\").put_object(Bucket=sys.argv[1], Key=sys.argv[2])'"
)


def commands_there_act_for_the_owner(runs: Runs, desk: str, environment: Mapping[str, str]) -> None:
    """Submit a job of files on the host, and stop one from there; other names and hosts are denied."""

    def typed(line: str) -> tuple[int, str, str]:
        return done(environment, "dev", "shell", NAME, "--", f"cd ~/work && {line}")

    files = {"job.yaml": JOB, "mine/says.py": SAYS}
    written = "; ".join(f"printf %s {shlex.quote(text)} >{name}" for name, text in files.items())
    assert (
        done(environment, "dev", "shell", NAME, "--", f"mkdir -p ~/work/mine && cd ~/work && {written}")[0]
        == 0
    )
    given = "test -s /run/trainyard/credentials.json && echo yes || true"
    runs.until("the host has its owner's credentials", lambda: shell(runs, desk, given))

    code, out, err = typed("trainyard submit job.yaml -q")
    assert code == 0, err
    run = runs.yard.run(out.split()[0])
    assert "typed there" in run.log("chief-0", 1)
    assert run.summary["submitter"] == "erin"
    assert run.id in typed("trainyard ls --user erin -o json")[1]

    code, out, err = typed("trainyard submit job.yaml -q --detach --set program.args='[600]'")
    assert code == 0, err
    later = runs.yard.run(out.split()[0])
    runs.until("it runs", lambda: "typed there" in later.log("chief-0", 1))
    code, _, err = typed(f"trainyard stop {later.id}")
    assert code == 0, err
    assert "erin has stopped the run" in later.why()

    bucket = runs.yard.bucket.name
    of_others = ("jobs/by/bob/job.yaml", "programs/by/bob/x.tar.gz", "data/by/bob/x", "data/x")
    for key in (*of_others, "jobs/job.yaml", "runs/mine/job.json", "images/gpu.yaml"):
        code, out, _ = typed(f"{PUTS} {bucket} {key} 2>&1")
        assert code, key
        assert "AccessDenied" in out, key
    assert typed("trainyard dev ls")[0] == 0
    assert typed(f"trainyard dev down {NAME}")[0] == 5


def test_a_notebook_on_a_dev_host(runs: Runs, tmp_path: Path) -> None:
    with person(runs, "user", "erin") as erin, desk(runs, erin) as host:
        with held(erin, "jupyter", NAME) as jupyter:
            a_cell_trains_a_model(jupyter, tmp_path)
            nobody_is_in_without_the_token(runs, host, jupyter)
            killed_it_is_started_again(runs, host, jupyter)
            a_session_that_is_ended_is_followed_by_another(runs, host, jupyter)
        runs.until("no session is left", lambda: not active(runs, host))
        commands_there_act_for_the_owner(runs, host, erin)
        one_that_always_dies_says_why(runs, host, erin)
        tensorboard_ends_with_the_command(runs, host, erin)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            used = taken.getsockname()[1]
            code, _, err = done(erin, "dev", "jupyter", NAME, "--port", str(used))
            assert code == 3
            assert f"port {used} of this computer is not free" in err
            assert "--port 0" in err
        code, _, err = done(erin, "dev", "jupyter", "nobodys")
        assert code == 4
        assert "trainyard dev up nobodys" in err
