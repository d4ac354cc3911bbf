"""Who is shown the page, and who may do something by it."""

import pytest
from starlette.testclient import TestClient

from tests.unit.ui import canned
from tests.unit.ui.canned import TRAINING
from tests.unit.ui.site import HERE, ONCE, PORT, TOKEN, owner, post, stranger

PATHS = (
    "/",
    "/events",
    "/hosts",
    "/hosts/events",
    "/money",
    "/images",
    f"/runs/{TRAINING}",
    f"/runs/{TRAINING}/events",
    f"/runs/{TRAINING}/stop",
    f"/runs/{TRAINING}/left/model",
    "/images/bake",
    "/static/page.js",
    "/static/vendor/htmx-4.0.1.min.js",
    "/no/such/page",
)


@pytest.fixture
def cloud() -> canned.Cloud:
    return canned.cloud()


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_reachable_without_the_token(cloud: canned.Cloud, path: str) -> None:
    client = stranger(cloud)
    for answer in (
        client.get(path),
        client.get(path, params={"token": "no"}),
        client.get(path, params=[("token", TOKEN), ("token", TOKEN)]),
        client.get(path, headers={"cookie": f"trainyard-{PORT}=another"}),
        client.get(path, headers={"cookie": f"trainyard-{PORT + 1}={TOKEN}"}),
        client.get(path, headers={"cookie": "\x7f;;=,"}),
        client.head(path),
        client.options(path),
        client.post(path, headers={"origin": HERE}),
    ):
        assert answer.status_code == 403
    assert not cloud.calls


def test_the_address_gives_a_cookie_and_goes_on_without_its_token(cloud: canned.Cloud) -> None:
    answer = stranger(cloud).get(f"/runs/{TRAINING}", params={"token": TOKEN, "q": 'a"b'})
    told = answer.headers["set-cookie"]
    assert "HttpOnly" in told
    assert "SameSite=strict" in told
    assert f"0;url=/runs/{TRAINING}?q=a%22b" in answer.text
    assert TOKEN not in answer.text


def test_what_a_browser_is_started_with_is_good_once(cloud: canned.Cloud) -> None:
    client = stranger(cloud)
    assert client.head("/", params={"token": ONCE}).headers["set-cookie"].count(TOKEN) == 1
    client.cookies.clear()
    assert client.get("/", params={"token": ONCE}).status_code == 403
    assert client.get("/", headers={"cookie": f"trainyard-{PORT}={ONCE}"}).status_code == 403


def test_the_address_leads_nowhere_else(cloud: canned.Cloud) -> None:
    assert "url=/example.com/" in stranger(cloud).get(f"{HERE}//example.com/", params={"token": TOKEN}).text


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
    client = owner(cloud)
    cookie = f"trainyard-{PORT}={TOKEN}"
    assert client.get("/", headers={"host": f"localhost:{PORT}", "cookie": cookie}).status_code == 200


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
    headers = owner(cloud).get(f"/runs/{TRAINING}/left/summary.json").headers
    assert headers["content-disposition"].startswith("attachment")
    assert headers["content-type"] == "application/octet-stream"


def test_a_form_that_nobody_types_is_refused(cloud: canned.Cloud) -> None:
    assert post(owner(cloud), f"/runs/{TRAINING}/rerun", set="x" * 100_000).status_code == 413


def test_lifespan_is_not_asked_for_a_token(cloud: canned.Cloud) -> None:
    with TestClient(owner(cloud).app, base_url=HERE) as client:
        assert client.get("/").status_code == 403
