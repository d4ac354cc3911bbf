"""Web pages in a real browser: from another origin, and by a name that an attacker points at this machine.

Requests that programs can send are in test_privacy.py, which runs without Chromium.
"""

from __future__ import annotations

import http.server
import json
import shutil
import threading
import urllib.parse
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from localcloud.base import root_key
from tests.contract.conftest import ACCOUNT, Cloud
from tests.unit.ui import canned
from trainyard.cli import browser as opening
from trainyard.ui import serve

MISSING = "no Chromium here: apt-get install --no-install-recommends chromium chromium-driver"
REBOUND = "rebound.evil.example"
READ = """
const done = arguments[arguments.length - 1], [url, options] = arguments;
fetch(url, options ?? {}).then(async (r) => done([r.type, r.status, r.type === "opaque" ? "" : await r.text()]),
                               (error) => done(["refused", 0, String(error)]));
"""
IMAGE = """
const done = arguments[arguments.length - 1], image = new Image();
image.onload = () => done("loaded"); image.onerror = () => done("refused"); image.src = arguments[0];
"""
SOCKET = """
const done = arguments[arguments.length - 1], socket = new WebSocket(arguments[0]);
socket.onopen = () => done("open"); socket.onerror = () => done("refused");
"""
FORM = """
const form = document.createElement("form");
form.method = "post"; form.action = arguments[0]; form.enctype = "text/plain";
const field = document.createElement("input");
field.name = '{"instance_type": "*", "zone": "*", "market": "*", "x": "'; field.value = '"}';
form.append(field); document.body.append(form); form.submit();
"""

OTHER_WAYS = {
    "an iframe": """
        const frame = document.createElement("iframe"); frame.src = url;
        frame.onload = () => { try { report(frame.contentDocument.body.textContent) } catch { report("refused") } };
        document.body.append(frame);""",
    "an object": """
        const made = document.createElement("object"); made.data = url;
        made.onload = () => { try { report(made.contentDocument.body.textContent) } catch { report("refused") } };
        made.onerror = () => report("refused"); document.body.append(made);""",
    "an event source": """
        const source = new EventSource(url, {withCredentials: true});
        source.onopen = () => report("open"); source.onerror = () => report("refused");""",
    "a script": """
        const made = document.createElement("script"); made.src = url;
        made.onload = () => report("loaded"); made.onerror = () => report("refused"); document.body.append(made);""",
    "a module": "import(url).then(() => report('loaded'), () => report('refused'));",
    "a style sheet": """
        const made = document.createElement("link"); made.rel = "stylesheet"; made.href = url;
        made.onload = () => report(document.styleSheets.length ? "loaded" : "refused");
        made.onerror = () => report("refused"); document.head.append(made);""",
    "a font": "new FontFace('f', `url(${url})`).load().then(() => report('loaded'), () => report('refused'));",
    "a video": """
        const made = document.createElement("video"); made.src = url;
        made.onloadedmetadata = () => report("loaded"); made.onerror = () => report("refused");
        document.body.append(made);""",
    "a window": """
        const opened = window.open(url);  // a readable about:blank until the answer arrives
        setInterval(() => {
            const loaded = () => opened.location.href !== "about:blank" && opened.document.body;
            try { if (loaded()) report(opened.document.body.textContent) }
            catch { report("refused") } }, 100);""",
    "a worker": """
        try { const made = new Worker(url); made.onmessage = () => report("loaded");
              made.onerror = () => report("refused") } catch { report("refused") }""",
    "a beacon": "navigator.sendBeacon(url, new Blob(['{}'], {type: 'text/plain'})); report('refused');",
    "a ping": """
        const made = document.createElement("a"); made.href = "#"; made.ping = url; document.body.append(made);
        made.click(); report("refused");""",
    "a request that names no referrer": """
        fetch(url, {method: "POST", mode: "no-cors", referrerPolicy: "no-referrer", credentials: "include", body: "{}"})
            .then((answer) => answer.text()).then((text) => report(text || "refused"), () => report("refused"));""",
    "a frame without an origin": """
        const frame = document.createElement("iframe"); frame.sandbox = "allow-scripts allow-forms";
        frame.srcdoc = `<script>fetch(${JSON.stringify(url)}, {method: "POST", body: "{}", mode: "no-cors"})
            .then((a) => a.text()).then((t) => parent.postMessage(t || "refused", "*"),
                                        () => parent.postMessage("refused", "*"))<` + "/script>";
        window.addEventListener("message", (event) => report(event.data)); document.body.append(frame);""",
}
"""Alternatives to fetch for reading an address or sending a request. Each calls `report` with its result."""
TRY = """
const done = arguments[arguments.length - 1], url = arguments[0]; let said = false;
const report = (what) => { if (!said) { said = true; done(what) } }; setTimeout(() => report("refused"), 3000);
"""


class Heard(http.server.BaseHTTPRequestHandler):
    """The attacker's server: an empty page, and the headers that browsers send to it."""

    headers_of: list[dict[str, str]]

    def do_GET(self) -> None:
        self.headers_of.append(dict(self.headers.items()))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>evil</title><body>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
        return


@contextmanager
def attacking() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield a page on another port of this machine, and the requests that it received."""
    heard: list[dict[str, str]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Heard,), {"headers_of": heard}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", heard
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip(MISSING)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
        f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1, MAP *.evil.example 127.0.0.1",
    ):  # fmt: skip
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    yield driver
    driver.quit()


@pytest.fixture
def elsewhere(browser: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """Open the attacker's page in the browser."""
    with attacking() as (address, _):
        browser.get(address)
        yield browser


def read(driver: webdriver.Chrome, url: str, **options: Any) -> list[Any]:
    """Return kind, status and text of the answer to a page's fetch."""
    return list(driver.execute_async_script(READ, url, options))


def faults(cloud: Cloud) -> Any:
    return cloud.admin("GET", "/faults")["capacity"]


def test_a_page_of_another_origin_reads_nothing(cloud: Cloud, elsewhere: webdriver.Chrome) -> None:
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="seen-by-nobody")
    s3.put_object(Bucket="seen-by-nobody", Key="a", Body=b"text", ContentType="image/png")
    presigned = s3.generate_presigned_url("get_object", {"Bucket": "seen-by-nobody", "Key": "a"})
    basic = root_key.load_key(cloud.state).as_basic()
    for url in (
        cloud.endpoint,
        f"{cloud.endpoint}/_localcloud/status",
        f"{cloud.endpoint}/_ministack/health",
        presigned,
    ):
        assert read(elsewhere, url)[0] == "refused"
        assert read(elsewhere, url, headers={"Authorization": basic})[0] == "refused", (
            "a preflight is before it"
        )
        kind, status, text = read(elsewhere, url, mode="no-cors", credentials="include")
        assert (kind, status, text) == ("opaque", 0, "")
        assert elsewhere.execute_async_script(IMAGE, url) == "refused"
    for path in ("/", "/v1/data-channel/x", "/_localcloud/status"):
        assert elsewhere.execute_async_script(SOCKET, f"ws://127.0.0.1:{cloud.port}{path}") == "refused"


def test_a_page_of_another_origin_does_nothing(cloud: Cloud, elsewhere: webdriver.Chrome) -> None:
    before = faults(cloud)
    refuse = f"{cloud.endpoint}/_localcloud/faults/refuse"
    body = json.dumps({"instance_type": "*", "zone": "*", "market": "*"})
    for options in (
        {"body": body, "mode": "no-cors"},
        {"body": body, "headers": {"Content-Type": "text/plain"}},
        {"body": body, "headers": {"Content-Type": "application/json"}},
    ):
        read(elsewhere, refuse, method="POST", **options)
    known = urllib.parse.urlencode({"Action": "CreateUser", "UserName": "mallory", "Version": "2010-05-08"})
    scope = "Credential=test/20261128/us-east-1/iam/aws4_request"
    authorization = f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature={'0' * 64}"
    for headers in ({}, {"Authorization": authorization}):
        form = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        read(elsewhere, cloud.endpoint, method="POST", body=known, headers=form, mode="cors")
    read(elsewhere, f"{cloud.endpoint}/mallorys-bucket", method="PUT", mode="cors")
    elsewhere.execute_script(FORM, refuse)
    assert "403" in elsewhere.find_element("tag name", "body").text
    assert faults(cloud) == before
    assert "mallory" not in [each["UserName"] for each in cloud.client("iam").list_users()["Users"]]
    assert "mallorys-bucket" not in [each["Name"] for each in cloud.client("s3").list_buckets()["Buckets"]]


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_no_other_way_of_a_page_reads_or_does_anything(
    cloud: Cloud, elsewhere: webdriver.Chrome, way: str
) -> None:
    before = faults(cloud)
    for path in ("/_localcloud/status", "/_localcloud/faults/clear", "/"):
        assert elsewhere.execute_async_script(TRY + OTHER_WAYS[way], cloud.endpoint + path) == "refused"
    assert faults(cloud) == before


@pytest.mark.parametrize("way", ["an iframe", "a window", "a script"])
def test_a_way_reads_its_own_origin(elsewhere: webdriver.Chrome, way: str) -> None:
    """Test the control: each way can read its own origin."""
    own = elsewhere.current_url
    assert elsewhere.execute_async_script(TRY + OTHER_WAYS[way], own) != "refused"


def test_a_name_that_leads_here_reads_and_does_nothing(cloud: Cloud, browser: webdriver.Chrome) -> None:
    """Test DNS rebinding, which gives the attacker's page the endpoint's origin without a preflight."""
    there, before = f"http://{REBOUND}:{cloud.port}", faults(cloud)
    browser.get(f"{there}/_localcloud/status")
    seen = browser.find_element("tag name", "body").text
    assert f"403: the host '{REBOUND}:{cloud.port}'" in seen
    assert ACCOUNT not in seen
    for path, options in (
        ("/", {}),
        ("/_localcloud/status", {}),
        ("/_localcloud/faults/refuse", {"method": "POST", "body": '{"instance_type": "*"}'}),
        (
            "/",
            {
                "method": "POST",
                "body": "Action=ListUsers",
                "headers": {"Authorization": "AWS4-HMAC-SHA256 x"},
            },
        ),
    ):
        kind, status, text = read(browser, there + path, **options)
        assert (kind, status) == ("basic", 403)
        assert "does not belong to this local cloud" in text
    assert browser.execute_async_script(SOCKET, f"ws://{REBOUND}:{cloud.port}/v1/data-channel/x") == "refused"
    assert faults(cloud) == before


# ------------------------------------------------------------------------------------------ trainyard ui


@pytest.fixture
def page() -> Iterator[tuple[str, canned.Cloud]]:
    """Yield the address of a page with canned data, served like by the command."""
    made, ready = canned.cloud(), threading.Event()
    addresses: list[str] = []
    here: list[serve.Ending] = []

    def opened(*given: str) -> None:
        addresses.extend(given)
        ready.set()

    class Here(serve.Ending):
        def capture_signals(self) -> Any:
            """Skip signal handlers, which only the main thread may install."""
            here.append(self)
            return nullcontext()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serve, "Ending", Here)
        thread = threading.Thread(target=serve.serve, args=(made.yard, made.yard(), 0, opened), daemon=True)
        thread.start()
        assert ready.wait(60)
        yield addresses[0], made
        here[0].handle_exit(2, None)
        thread.join(30)


def test_the_page_is_its_browsers_alone(page: tuple[str, canned.Cloud], browser: webdriver.Chrome) -> None:
    address, made = page
    root = address.partition("/#")[0]
    with attacking() as (evil, heard):
        browser.get(address)
        assert "Runs" in browser.title
        assert "token" not in browser.current_url
        assert browser.get_cookies() == []
        browser.get(evil)
        assert not [sent for sent in heard if "cookie" in {name.lower() for name in sent}]
        assert browser.execute_script("return localStorage.length") == 0
        for path in ("/", "/hosts", f"/runs/{canned.TRAINING}/results/model"):
            assert read(browser, root + path, credentials="include")[0] == "refused"
        stop = f"{root}/runs/{canned.TRAINING}/stop"
        read(browser, stop, method="POST", mode="no-cors", credentials="include", body="how=now")
        browser.execute_script(FORM, stop)
        assert "403" in browser.find_element("tag name", "body").text
        browser.get(root.replace("127.0.0.1", REBOUND) + "/")
        assert "403" in browser.find_element("tag name", "body").text
    assert made.stopped == []
    browser.get(f"{root}/hosts")
    assert "Hosts" in browser.title, "its own page still works"


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_no_other_way_of_a_page_reads_or_stops_a_run(
    page: tuple[str, canned.Cloud], browser: webdriver.Chrome, way: str
) -> None:
    address, made = page
    root = address.partition("/#")[0]
    browser.get(address)
    with attacking() as (evil, _):
        browser.get(evil)
        for path in ("/", "/live", f"/runs/{canned.TRAINING}/stop"):
            assert browser.execute_async_script(TRY + OTHER_WAYS[way], root + path) == "refused"
    assert made.stopped == []


def test_the_file_that_the_command_opens_leads_to_the_page(
    page: tuple[str, canned.Cloud], browser: webdriver.Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test the file that the command opens. All accounts of a computer can read a browser's command line."""
    opened: list[str] = []

    def open_in_chromium(address: str) -> None:
        opened.append(address)
        browser.get(address)

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(opening, "READ_SECONDS", 0.0)
    monkeypatch.setattr(webbrowser, "open", open_in_chromium)
    opening.open_page(page[0])
    WebDriverWait(browser, 30).until(lambda seen: "Runs" in seen.title)
    assert "token" not in browser.current_url
    assert opened[0].startswith(f"file://{tmp_path}/")
    assert list(tmp_path.iterdir()) == []


def test_each_metric_has_a_chart_that_log_and_smooth_change(
    page: tuple[str, canned.Cloud], browser: webdriver.Chrome
) -> None:
    address, made = page
    written = {
        "samples": [{"step": step, "loss": 1 / step} for step in (1, 2, 3)],
        "scalars": {"val/loss": [[1, 0.5], [2, -1.0], [3, "NaN"]], "lr": [[1, 0.1, 60, 1]]},
    }
    made.stories[canned.TRAINING].files["metrics.json"] = json.dumps(written).encode()
    browser.switch_to.new_window(
        "tab"
    )  # pages of other tests may lie over this one, and then nothing is in view
    browser.get(address)

    def wait_for(element: str, charts: int) -> None:
        script = f"return document.querySelector('{element}')?.dataset.charts"
        WebDriverWait(browser, 60).until(lambda _: browser.execute_script(script) == str(charts))

    root = address.partition("/#")[0]
    browser.get(f"{root}/runs/{canned.TRAINING}")
    wait_for("#metrics", 3)

    def plots() -> int:
        """Look at each chart, because it is drawn in view, and return how many are drawn."""
        for figure in browser.find_elements("css selector", "#metrics figure"):
            browser.execute_script("arguments[0].scrollIntoView()", figure)
        return len(browser.find_elements("css selector", "#metrics .uplot"))

    WebDriverWait(browser, 60).until(lambda _: plots() == 3)
    assert "at one point, first at step 3" in browser.find_element("id", "metrics").text
    for box in browser.find_elements("css selector", "[data-look][type=checkbox]"):
        browser.execute_script("arguments[0].click()", box)  # the head of the page may lie over it
    for by in ("times", "epochs", "steps"):
        Select(browser.find_element("css selector", "[data-look=by]")).select_by_value(by)
    browser.find_element("css selector", "[data-look=find]").send_keys("VAL")
    shown = [each for each in browser.find_elements("css selector", "#metrics figure") if each.is_displayed()]
    assert [each.get_attribute("data-metric") for each in shown] == ["val/loss"]
    assert plots() == 3
    browser.get(f"{root}/compare?runs={canned.TRAINING},{canned.FAILED}")
    wait_for("#compared", 3)
    assert [each for each in severe_messages(browser) if root in each] == []


def severe_messages(browser: webdriver.Chrome) -> list[str]:
    """Return the errors in the browser's console since the last call."""
    log = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [each["message"] for each in log if each["level"] == "SEVERE"]
