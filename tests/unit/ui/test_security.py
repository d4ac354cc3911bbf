"""Access to the page and to its actions."""

import pytest
from starlette.testclient import TestClient

from tests.unit.ui import canned
from tests.unit.ui.canned import TRAINING
from tests.unit.ui.site import HERE, ONCE, PORT, TOKEN, owner, post, stranger
from trainyard.ui.security import TOKEN_HEADER

PATHS = (
    "/",
    "/events",
    "/hosts",
    "/hosts/events",
    "/money",
    "/images",
    "/studies",
    "/models",
    "/models/digits",
    f"/runs/{TRAINING}",
    f"/runs/{TRAINING}/events",
    f"/runs/{TRAINING}/stop",
    f"/runs/{TRAINING}/results/model",
    "/images/bake",
    "/static/charts.js",
    "/static/page.js",
    "/static/vendor/htmx-4.0.1.min.js",
    "/no/such/page",
)


@pytest.fixture
def cloud() -> canned.Cloud:
    return canned.cloud()


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith("/static/")])
def test_nothing_is_reachable_without_the_token(cloud: canned.Cloud, path: str) -> None:
    client = stranger(cloud)
    for answer in (
        client.get(path),
        client.get(path, params={"token": TOKEN}),
        client.get(path, params={"ticket": TOKEN}),
        client.get(path, headers={TOKEN_HEADER: "another"}),
        client.get(path, headers=[(TOKEN_HEADER, TOKEN), (TOKEN_HEADER, TOKEN)]),
        client.get(path, headers={TOKEN_HEADER: ONCE}),
        client.get(path, headers={"cookie": f"trainyard-{PORT}={TOKEN}"}),
        client.head(path),
        client.options(path),
        client.post(path, headers={"origin": HERE}),
    ):
        assert answer.status_code == 403
    assert not cloud.calls


def test_a_navigation_gets_a_page_without_content_which_is_the_same_for_each_address(
    cloud: canned.Cloud,
) -> None:
    navigates = {"accept": "text/html,application/xhtml+xml"}
    doors = {
        stranger(cloud).get(path, headers=navigates).text
        for path in (*PATHS[:10], "/\\evil.example", "//evil")
    }
    assert len(doors) == 1
    (door,) = doors
    assert "enter.js" in door
    assert TOKEN not in door
    assert not cloud.calls
    assert stranger(cloud).post("/", headers=navigates | {"origin": HERE}).status_code == 403


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/%5Cevil.example", "/\\evil.example?token=x", "/%2F%2Fevil"]
)
def test_no_answer_leads_elsewhere(cloud: canned.Cloud, path: str) -> None:
    for client in (owner(cloud), stranger(cloud)):
        for headers in ({}, {"accept": "text/html"}):
            answer = client.get(HERE + path, headers=headers)
            assert "location" not in answer.headers
            assert "refresh" not in answer.text.lower()


def test_no_answer_sets_a_cookie(cloud: canned.Cloud) -> None:
    """A browser sends cookies to every port of 127.0.0.1, and so to the servers of all users of this computer."""
    client = owner(cloud)
    answers = [client.get(path) for path in PATHS]
    answers.append(client.post("/enter", headers={"origin": HERE}))
    assert not [answer for answer in answers if "set-cookie" in answer.headers]


def test_what_a_browser_is_started_with_is_good_once(cloud: canned.Cloud) -> None:
    client, ours = stranger(cloud), {"origin": HERE, TOKEN_HEADER: ONCE}
    assert client.post("/enter", headers=ours | {"origin": "http://evil.example"}).status_code == 403
    assert client.post("/enter", headers=ours).text == TOKEN
    assert client.post("/enter", headers=ours).status_code == 403
    assert client.get("/", headers=ours).status_code == 403


def test_a_download_takes_a_ticket_which_is_good_once_and_for_one_path(cloud: canned.Cloud) -> None:
    path, other = f"/runs/{TRAINING}/results/summary.json", f"/runs/{TRAINING}/stop"
    client = owner(cloud)
    browser = TestClient(client.app, base_url=HERE)
    assert browser.post("/ticket", params={"path": path}, headers={"origin": HERE}).status_code == 403
    assert client.post("/ticket", params={"path": path}).status_code == 403, "another page's"
    ticket = post(client, "/ticket?path=" + path).text
    assert browser.get(other, params={"ticket": ticket}).status_code == 403
    assert browser.post(path, params={"ticket": ticket}, headers={"origin": HERE}).status_code == 403
    assert browser.get(path, params={"ticket": ticket}).status_code in (200, 404)
    assert browser.get(path, params={"ticket": ticket}).status_code == 403


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        f"example.com:{PORT}",
        "127.0.0.1",
        f"127.0.0.1:{PORT + 1}",
        f"127.0.0.1.example.com:{PORT}",
        "",
    ],
)
def test_another_name_for_this_computer_is_refused(cloud: canned.Cloud, host: str) -> None:
    assert owner(cloud).get("/", headers={"host": host}).status_code == 403


def test_localhost_is_this_computer(cloud: canned.Cloud) -> None:
    assert owner(cloud).get("/", headers={"host": f"localhost:{PORT}"}).status_code == 200


@pytest.mark.parametrize(
    "origin", [None, "null", "http://example.com", f"http://localhost:{PORT}", f"https://127.0.0.1:{PORT}"]
)
def test_what_another_page_sends_does_nothing(cloud: canned.Cloud, origin: str | None) -> None:
    answer = owner(cloud).post(f"/runs/{TRAINING}/stop", headers={"origin": origin} if origin else {})
    assert answer.status_code == 403
    assert cloud.stopped == []


def test_a_token_in_the_address_does_nothing(cloud: canned.Cloud) -> None:
    answer = stranger(cloud).post(f"/runs/{TRAINING}/stop", params={"token": TOKEN}, headers={"origin": HERE})
    assert answer.status_code == 403
    assert cloud.stopped == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_get_shows_and_post_does(cloud: canned.Cloud, method: str) -> None:
    assert owner(cloud).request(method, f"/runs/{TRAINING}/stop", headers={"origin": HERE}).status_code == 405


def test_looking_changes_nothing(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    for path in PATHS:
        client.get(path)
    assert cloud.stopped == []
    assert not {"start_execution", "stop_execution"} & set(cloud.calls)


@pytest.mark.parametrize("path", PATHS)
def test_no_answer_lets_anything_of_elsewhere_in(cloud: canned.Cloud, path: str) -> None:
    for client in (owner(cloud), stranger(cloud)):
        headers = client.get(path).headers
        policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert set(policy.values()) == {"'none'", "'self'"}
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_the_page_names_no_other_place(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    for path in PATHS[:8]:
        text = client.get(path).text
        assert "http://" not in text
        assert "https://" not in text
        assert "style=" not in text
        assert "onclick" not in text


def test_what_a_run_left_is_saved_and_never_opened(cloud: canned.Cloud) -> None:
    cloud.stories[TRAINING].files["summary.json"] = b"<script>alert(1)</script>"
    headers = owner(cloud).get(f"/runs/{TRAINING}/results/summary.json").headers
    assert headers["content-disposition"].startswith("attachment")
    assert headers["content-type"] == "application/octet-stream"


def test_a_form_that_nobody_types_is_refused(cloud: canned.Cloud) -> None:
    assert post(owner(cloud), f"/runs/{TRAINING}/rerun", set="x" * 100_000).status_code == 413


def test_lifespan_is_not_asked_for_a_token(cloud: canned.Cloud) -> None:
    with TestClient(owner(cloud).app, base_url=HERE) as client:
        assert client.get("/").status_code == 403
