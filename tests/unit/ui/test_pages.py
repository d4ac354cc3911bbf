"""The content of the pages."""

import html
import io
import json
import math
import re
import tarfile
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.unit.ui import canned
from tests.unit.ui.canned import FAILED, INTERRUPTED, REFUSED, TRAINING, WAITING
from tests.unit.ui.site import owner, post, said
from trainyard.client.errors import Denied, NoAnswer, NoCredentials
from trainyard.client.runs.metric_points import MetricPoints
from trainyard.ui.pages import run as run_page
from trainyard.ui.templating import failure

TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture
def cloud() -> canned.Cloud:
    return canned.cloud(runs=3)


def test_runs_say_how_they_stand(cloud: canned.Cloud) -> None:
    text = owner(cloud).get("/").text
    for run in (TRAINING, WAITING, FAILED, INTERRUPTED, REFUSED):
        assert f'href="/runs/{run}"' in text
    shown = said(text)
    assert "Waiting for capacity all pools refused" in shown
    assert "4,000 / 6,000" in shown
    assert "team=vision" in shown
    assert "linus" in shown


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("the program failed:\nTraceback:\nKeyError: 'a'\nDuring handling:\njobs.DataError: no shards",
         "jobs.DataError: no shards"),
        ("Attempt 1 failed: ProgramFailed (exit code 2): the program ended with exit code 2: usage: train.py",
         "usage: train.py"),
        ("no pool has room", "no pool has room"),
    ],
)  # fmt: skip
def test_the_row_of_a_failed_run_names_what_went_wrong(reason: str, shown: str, cloud: canned.Cloud) -> None:
    cloud.stories[FAILED].row["reason"] = reason
    text = html.unescape(owner(cloud).get("/").text)
    (cell,) = re.findall(rf'id="row-{FAILED}".*?class="why"[^>]*>(.*?)</span>', text, re.DOTALL)
    assert cell == shown


def test_a_run_says_what_it_does_where_and_for_how_much(cloud: canned.Cloud) -> None:
    shown = said(owner(cloud).get(f"/runs/{TRAINING}").text)
    assert f"{TRAINING} is training: attempt 1, at step 4000." in shown
    assert "Cost so far $0.28" in shown
    assert "55% of $0.6" in shown
    assert "of at most $5.00" in shown
    assert "chief 0 i-0aaa g6.xlarge us-east-1a spot" in shown
    assert f"no room 1{TIMES}" in shown
    assert "InsufficientInstanceCapacity" in shown
    assert "Stop…" in shown
    assert "Resume" not in shown


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"lr": Decimal("0.1"), "data": "<b>"}, "Arguments: lr=0.1 data=&lt;b&gt;"),
        (["--lr", "0.1", "two words"], "Arguments: --lr 0.1 &#39;two words&#39;"),
    ],
)
def test_a_runs_page_shows_the_arguments_of_its_program(
    cloud: canned.Cloud, args: object, shown: str
) -> None:
    cloud.stories[TRAINING].row["job"]["program"] = {"args": args}
    assert shown in owner(cloud).get(f"/runs/{TRAINING}").text.replace('<span class="mono">', "")


def test_a_loss_that_became_nan_is_nan_among_runs_and_on_the_runs_page(cloud: canned.Cloud) -> None:
    progress = cloud.stories[TRAINING].row["progress"]
    progress |= {"loss": "NaN", "nan_since": Decimal(320)}
    cloud.stories[TRAINING].files["metrics.json"] = json.dumps(
        {"samples": [{"step": 310, "loss": 0.5}, {"step": 320, "loss": "NaN"}]}
    ).encode()
    assert '<td class="n" data-name="loss">NaN</td>' in owner(cloud).get("/").text
    text = owner(cloud).get(f"/runs/{TRAINING}").text
    assert '<span class="chip is-failed">loss NaN since step 320</span>' in text
    assert "Its loss has been NaN since step 320." in said(text)


def test_numbers_that_a_program_does_not_report_are_not_shown(cloud: canned.Cloud) -> None:
    story = cloud.stories[TRAINING]
    story.row["progress"] = {"step": Decimal(4000), "loss": None, "epoch": None, "steps_per_second": None}
    del story.files["metrics.json"]
    assert '<td class="n" data-name="loss"></td>' in owner(cloud).get("/").text
    shown = said(owner(cloud).get(f"/runs/{TRAINING}").text)
    assert "step 4,000" in shown
    assert "loss 0" not in shown
    assert "steps/s" not in shown


def test_a_run_that_waits_says_why_and_until_when(cloud: canned.Cloud) -> None:
    shown = said(owner(cloud).get(f"/runs/{WAITING}").text)
    assert "4 pools refused (3 no room, 1 quota); it asks again at" in shown
    assert f"no room 13{TIMES}" in shown
    assert f"quota 13{TIMES}" in shown
    assert "No hosts." in shown


def test_a_run_that_failed_says_its_last_lines(cloud: canned.Cloud) -> None:
    shown = said(owner(cloud).get(f"/runs/{FAILED}").text)
    assert "ValueError: shapes (64, 10) and (32, 10)" in shown
    assert "Run again…" in shown


def test_a_run_that_was_interrupted_shows_both_attempts(cloud: canned.Cloud) -> None:
    shown = said(owner(cloud).get(f"/runs/{INTERRUPTED}").text)
    assert "interrupted · g6.xlarge in us-east-1a, spot" in shown
    assert "finished · g5.xlarge in us-east-1b, spot" in shown
    assert "Total cost $0.7100" in shown
    assert "48% of $1.37 on demand" in shown


def test_a_run_that_was_refused_can_neither_be_resumed_nor_run_again(cloud: canned.Cloud) -> None:
    shown = said(owner(cloud).get(f"/runs/{REFUSED}").text)
    assert "was refused" in shown
    assert "there is no such key" in shown
    assert "Run again" not in shown


@pytest.mark.parametrize("saved", [{"checkpointed": Decimal(80)}, {"saved": "2026-11-24T12:00:00.000Z"}])
def test_a_run_that_failed_with_a_checkpoint_offers_to_go_on(
    saved: dict[str, object], cloud: canned.Cloud
) -> None:
    """A checkpoint is enough, even if the program reported no steps."""
    cloud.stories[FAILED].rows[2].update(saved)
    assert "Resume…" in owner(cloud).get(f"/runs/{FAILED}").text


def test_a_run_that_failed_with_outputs_alone_offers_to_continue_with_them(cloud: canned.Cloud) -> None:
    story = cloud.stories[FAILED]
    summary = json.loads(story.files["summary.json"])
    assert "Resume…" not in owner(cloud).get(f"/runs/{FAILED}").text
    where = {**summary.get("where", {}), "outputs": f"s3://b/runs/{FAILED}/outputs/"}
    story.files["summary.json"] = json.dumps({**summary, "where": where}).encode()
    assert "Resume…" in owner(cloud).get(f"/runs/{FAILED}").text
    assert "starts with the outputs of this run" in owner(cloud).get(f"/runs/{FAILED}/resume").text


def test_a_run_that_is_not_there_is_said_so(cloud: canned.Cloud) -> None:
    answer = owner(cloud).get("/runs/nobody-00000000")
    assert answer.status_code == 404
    assert "has no run nobody-00000000" in answer.text


def test_a_run_with_nothing_in_it_yet_is_a_page(cloud: canned.Cloud) -> None:
    story = cloud.stories[TRAINING]
    story.rows, story.timeline, story.states, story.files = [], [], [], {}
    story.row = {
        key: story.row[key]
        for key in ("pk", "sk", "execution_arn", "created", "month", "state", "kind", "attempt")
    }
    assert "No attempts." in owner(cloud).get(f"/runs/{TRAINING}").text


def test_hosts_have_verdicts_and_a_sum(cloud: canned.Cloud) -> None:
    shown = said(owner(cloud).get("/hosts").text)
    assert "i-0fff notebook-11112222 running stop-idle since" in shown
    assert "3 hosts $1.08 per hour" in shown


def test_money_is_by_day_user_and_job(cloud: canned.Cloud) -> None:
    shown = said(owner(cloud).get("/money").text)
    assert "All hosts of this month $123.45" in shown
    assert "Rest of the monthly budget $876.55 of $1,000.00" in shown
    assert "Spot saved $0.6980" in shown
    assert "By user" in shown
    assert "By job" in shown
    assert owner(cloud).get("/money", params={"month": "2026-02"}).status_code == 200
    assert owner(cloud).get("/money", params={"month": "February"}).status_code == 404


def test_images_stand_under_those_they_came_from(cloud: canned.Cloud) -> None:
    text = owner(cloud).get("/images").text
    order = [text.index(f'id="image-ami-0000000{number}"') for number in (3, 4, 5, 2, 1)]
    assert order == sorted(order)
    assert "current" in text


def test_a_family_whose_tags_lead_in_a_circle_is_a_page(cloud: canned.Cloud) -> None:
    for image in cloud.images:
        for tag in image["Tags"]:
            if tag["Key"] == "trainyard:parent":
                tag["Value"] = image["ImageId"]
    assert owner(cloud).get("/images").text.count("<li id=") == 5


def test_what_others_have_written_stays_text(cloud: canned.Cloud) -> None:
    story = cloud.stories[FAILED]
    bad = "<script>alert(1)</script>\u202e\x1b[31m"
    story.row |= {"reason": bad, "submitter": bad, "labels": {bad: bad}}
    story.files["summary.json"] = json.dumps({"outcome": "failed", "reason": bad}).encode()
    client = owner(cloud)
    for path in ("/", f"/runs/{FAILED}", f"/runs/{FAILED}/events", "/money"):
        text = client.get(path).text
        assert "<script>alert" not in text
        assert "\u202e" not in text
        assert "\x1b" not in text


# --- live
def test_events_bring_parts_curve_and_log(cloud: canned.Cloud) -> None:
    answer = owner(cloud).get(f"/runs/{TRAINING}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    messages = [each for each in answer.text.split("\n\n") if each][1:]
    assert '<hx-partial hx-target="#hosts" hx-swap="innerMorph">' in messages[0]
    curve = json.loads(messages[1].partition("data: ")[2])
    curve = curve["loss"]
    assert (curve["whole"], len(curve["steps"]), curve["steps"][-1]) == (True, 400, 4000)
    log = json.loads(messages[2].partition("data: ")[2])
    assert len(log["lines"]) == 1220
    assert log["lines"][-1][1:] == ["chief-0", 1, "step 1199  loss 0.0423  12.4 steps/s"]
    assert ["worker-1", 1, "epoch 0 <b>begins</b>"] in [line[1:] for line in log["lines"]]
    charts = json.loads(messages[3].partition("data: ")[2])["charts"]
    assert [chart["title"] for chart in charts] == ["GPU, %", "GPU memory, MB", "Processors, %"]
    assert [[each["label"] for each in chart["series"]] for chart in charts] == [["chief 0"]] * 3
    assert all(len(chart["x"]) == len(chart["series"][0]["y"]) > 3 for chart in charts)


def test_cloudwatch_is_asked_once_a_minute_for_the_hosts_of_an_open_page(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    for _ in range(3):
        client.get(f"/runs/{TRAINING}/events")
    assert cloud.calls["get_metric_data"] == 1


# --- compare
def compared_charts(events: str) -> list[dict[str, Any]]:
    (compared,) = [each for each in events.split("\n\n") if each.startswith("event: compared")]
    charts: list[dict[str, Any]] = json.loads(compared.partition("data: ")[2])["charts"]
    return charts


def test_runs_are_compared_by_their_differences_results_and_curves(cloud: canned.Cloud) -> None:
    for run, rate in ((TRAINING, 0.5), (FAILED, 0.1)):
        job = {"name": "digits", "program": {"module": "train", "args": {"lr": rate}}}
        cloud.stories[run].files["job.json"] = json.dumps(job).encode()
    client = owner(cloud)
    shown = said(client.get(f"/compare?runs={TRAINING},{FAILED}").text)
    assert "Compare 2 runs" in shown
    assert "program.args.lr 0.5 0.1" in shown
    assert "program.module" not in shown
    (loss, *_) = compared_charts(client.get(f"/compare/events?runs={TRAINING},{FAILED}").text)
    assert TRAINING in [each["label"] for each in loss["curves"]]


@pytest.mark.parametrize(
    "runs", ["", TRAINING, f"{TRAINING},{TRAINING}", ",".join(f"run-{n}" for n in range(9))]
)
def test_a_comparison_of_too_few_or_too_many_runs_says_how_many_it_takes(
    runs: str, cloud: canned.Cloud
) -> None:
    answer = owner(cloud).get(f"/compare?runs={runs}")
    assert answer.status_code == 404
    assert "a comparison takes 2 to 8 runs" in said(answer.text)


def test_a_comparison_with_a_run_that_is_not_there_says_so(cloud: canned.Cloud) -> None:
    assert "has no run nothing-1" in said(owner(cloud).get(f"/compare?runs={TRAINING},nothing-1").text)


def test_a_page_gets_the_new_points_of_each_metric() -> None:
    points = MetricPoints()
    points.add(1, 0.5, 60.0, 1)
    points.add(2, math.nan, 61.0)
    told: dict[str, Any] = {}
    (found,) = run_page._metrics({"lr": points}, told)
    whole = {"steps": [1, 2], "values": [0.5, "NaN"], "times": [60.0, 61.0], "epochs": [1, None]}
    assert (found.event, found.data) == ("metrics", {"lr": {"whole": True, **whole}})
    assert list(run_page._metrics({"lr": points}, told)) == [], "nothing is new"
    points.add(3, 0.25, 62.0)
    (found,) = run_page._metrics({"lr": points}, told)
    later = {"steps": [3], "values": [0.25], "times": [62.0], "epochs": [None]}
    assert found.data == {"lr": {"whole": False, **later}}
    (found,) = run_page._metrics({"lr": MetricPoints([1, 3], [0.5, 0.25], [60.0, 62.0], [1, None])}, told)
    assert found.data["lr"]["whole"], "a point was thinned out"


def test_compared_runs_have_a_chart_of_each_metric_with_the_runs_that_have_it(cloud: canned.Cloud) -> None:
    written = {"samples": [{"step": 1, "loss": 2.0}], "scalars": {"lr": [[1, 0.5]]}}
    cloud.stories[TRAINING].files["metrics.json"] = json.dumps(written).encode()
    charts = compared_charts(owner(cloud).get(f"/compare/events?runs={TRAINING},{FAILED}").text)
    found = {
        chart["title"]: {curve["label"]: curve["values"] for curve in chart["curves"]} for chart in charts
    }
    assert next(iter(found)) == "loss"
    assert found["loss"][TRAINING] == [2.0]
    assert found["lr"] == {TRAINING: [0.5]}


def test_a_page_that_comes_back_is_told_what_it_missed(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    client.get(f"/runs/{TRAINING}/events")
    cloud.stories[TRAINING].files["attempts/1/logs/worker-1/00000001.log"] += canned.log(
        "worker-1", "i-0bbb", [(datetime.now(UTC), "one more")]
    )
    answer = client.get(f"/runs/{TRAINING}/events", headers={"last-event-id": "1220"})
    assert "one more" in answer.text.partition("event: log")[2] or "event: log" not in answer.text
    assert '"whole": true' not in answer.text.partition("event: log")[2]


def test_a_page_is_not_sent_what_it_came_with_but_after_a_break(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    connect = re.search(r'hx-sse:connect="([^"]+)"', client.get("/").text)
    assert connect
    events = html.unescape(connect[1])
    assert "hx-partial" not in client.get(events).text
    assert "hx-partial" in client.get(events, headers={"last-event-id": "0"}).text
    cloud.stories[TRAINING].row["state"] = "Release"
    cloud.calls.clear()
    assert "hx-partial" in owner(cloud).get(events).text


def test_a_loss_that_is_no_number_is_a_text(cloud: canned.Cloud) -> None:
    samples = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": float("nan")}, {"step": 3, "loss": float("inf")}]
    cloud.stories[TRAINING].files["metrics.json"] = json.dumps({"samples": samples}).encode()
    text = owner(cloud).get(f"/runs/{TRAINING}/events").text
    assert '"values": [2.0, "NaN", "Infinity"]' in text


def test_a_search_finds_lines_of_all_hosts_and_attempts(cloud: canned.Cloud) -> None:
    odd = canned.log("worker-1", "i-1", [(datetime.now(UTC), "<b>Odd</b>\x1b[2J")])
    cloud.stories[TRAINING].files["attempts/1/logs/worker-1/00000001.log"] += odd
    found = owner(cloud).get(f"/runs/{TRAINING}/lines?find=odd")
    assert "1 line with" in said(found.text)
    assert "&lt;b&gt;Odd&lt;/b&gt;" in found.text
    assert "\x1b" not in found.text
    assert "contains" in owner(cloud).get(f"/runs/{TRAINING}/lines?find=nowhere").text


def test_the_end_of_a_long_log_is_shown(cloud: canned.Cloud) -> None:
    line = canned.log("chief-0", "i-0aaa", [(datetime.now(UTC), "x" * 200)])
    cloud.stories[TRAINING].files["attempts/1/logs/chief-0/00000001.log"] = line * 40_000
    text = owner(cloud).get(f"/runs/{TRAINING}/events").text
    assert 1000 < text.count("x" * 200) < 2001


# --- errors of AWS
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            NoCredentials(
                "AWS did not accept the credentials (ExpiredToken)", "it has expired", "aws sso login"
            ),
            "aws sso login",
        ),
        (
            Denied("dynamodb:Query was denied", "no policy allows it", "trainyard yard grant role/x viewer"),
            "yard grant",
        ),
        (NoAnswer("no answer", "name or service not known", "look at the network"), "look at the network"),
        (
            ClientError({"Error": {"Code": "Throttling", "Message": "Rate exceeded"}}, "Query"),
            "AWS answered Throttling",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/", f"/runs/{TRAINING}", "/hosts", "/money", "/images"])
def test_what_is_in_the_way_is_a_line_with_what_to_type(
    cloud: canned.Cloud, error: Exception, words: str, path: str
) -> None:
    cloud.denies = error
    answer = owner(cloud).get(path)
    assert answer.status_code == 200
    assert words in answer.text


def test_the_page_goes_on_when_it_can(cloud: canned.Cloud) -> None:
    cloud.denies = NoCredentials("AWS did not accept the credentials", "expired", "aws sso login")
    lines = owner(cloud).get("/events").text
    assert "aws sso login" in lines
    assert 'hx-target="#rows"' not in lines  # the rows shown before stay
    cloud.denies = None
    lines = owner(cloud).get("/events").text
    assert "aws sso login" not in lines
    assert TRAINING in lines


# --- actions
def test_stop_says_what_it_does_and_does_it(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    asked = said(client.get(f"/runs/{TRAINING}/stop").text)
    assert "Stop and save : the program saves a checkpoint, at about step 4000, and 2 hosts end" in asked
    assert "at step 3940, stays; 60 later steps will be lost" in asked
    assert post(client, f"/runs/{TRAINING}/stop").headers["hx-redirect"] == f"/runs/{TRAINING}"
    assert cloud.stopped == []
    assert cloud.told == [("stop", {"run": TRAINING})]
    answer = post(client, f"/runs/{TRAINING}/stop", now="yes")
    assert answer.headers["hx-redirect"] == f"/runs/{TRAINING}"
    assert cloud.stopped == [cloud.stories[TRAINING].row["execution_arn"]]


def test_what_waits_for_hosts_has_nothing_to_save(cloud: canned.Cloud) -> None:
    asked = owner(cloud).get(f"/runs/{WAITING}/stop").text
    assert "The run has no hosts. It ends at once, and nothing is lost." in said(asked)
    assert "Stop and save" not in asked
    assert 'name="now"' not in asked


def test_a_change_that_cannot_be_read_is_a_line_in_the_dialog(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    assert "args.lr=0.5" in client.get(f"/runs/{INTERRUPTED}/rerun").text
    answer = post(client, f"/runs/{INTERRUPTED}/rerun", set="args.lr")
    assert "is not a change of the job" in answer.text
    assert "hx-redirect" not in answer.headers


def test_a_bake_leads_to_its_run(cloud: canned.Cloud) -> None:
    client = owner(cloud)
    assert "Bake an image?" in client.get("/images/bake").text
    assert post(client, "/images/bake").headers["hx-redirect"] == "/runs/bake-9"


@pytest.mark.parametrize("path", ["/images/rollback", f"/runs/{TRAINING}/destroy"])
def test_what_is_not_done_here_is_not_found(cloud: canned.Cloud, path: str) -> None:
    client = owner(cloud)
    assert client.get(path).status_code == 404
    assert post(client, path).status_code == 404


# --- results
def test_a_folder_comes_as_one_archive(cloud: canned.Cloud) -> None:
    answer = owner(cloud).get(f"/runs/{INTERRUPTED}/results/model")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        assert {member.name: member.size for member in archive} == {
            "model/saved_model.pb": 40_000,
            "model/variables/variables.index": 700,
        }
        assert archive.extractfile("model/saved_model.pb").read() == b"m" * 40_000  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["model", "words", "..%2fother", "credentials", "order.json"])
def test_what_is_not_there_or_nobodys_business_is_not_found(cloud: canned.Cloud, name: str) -> None:
    assert owner(cloud).get(f"/runs/{TRAINING}/results/{name}").status_code == 404


@pytest.mark.parametrize("path", ["/nope", "/runs/none-12345678"])
def test_an_address_without_a_page_is_answered_at_once(cloud: canned.Cloud, path: str) -> None:
    answer = owner(cloud).get(path)
    assert answer.status_code == 404
    assert "Loading" not in answer.text
    assert "Next:" in said(answer.text)


def test_the_cell_of_a_failed_run_names_the_exception() -> None:
    reason = "Attempt 2 failed at step 8: ProgramFailed, the program failed (exit code 1): the program ended with exit "
    assert failure(f"{reason}code 1: KeyError: 'x'.\nThe last lines") == "KeyError: 'x'."
    assert failure("program.modul: there is no such key") == "program.modul: there is no such key"


def test_a_run_that_would_outlast_its_cap_says_so(cloud: canned.Cloud) -> None:
    story = cloud.stories[TRAINING]
    story.row["progress"] |= {"step": 1, "steps": 6000, "steps_per_second": Decimal("0.04")}
    story.row["job"] = {"limits": {"hours": 1}}
    shown = said(owner(cloud).get(f"/runs/{TRAINING}").text)
    assert "1d17h remaining, but the limit of 1h comes first" in shown


def test_bakes_are_listed_on_the_page_of_images(cloud: canned.Cloud) -> None:
    cloud.stories[FAILED].row["kind"] = "bake"
    assert FAILED not in owner(cloud).get("/").text
    assert FAILED in owner(cloud).get("/images").text
