"""The list of runs: its columns, groups, order and filter come from the address."""

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from tests.e2e.browser import Browser, driven
from tests.unit.ui import canned
from tests.unit.ui.canned import FAILED, TRAINING, WAITING
from tests.unit.ui.canned_study import STUDY
from tests.unit.ui.site import canned as served
from tests.unit.ui.site import owner, said
from trainyard.client.runs.listing import ListedRun
from trainyard.protocol.ledger import reading
from trainyard.ui.columns import DEFAULT, choices_in, column_of
from trainyard.ui.view import FEW_ROWS, MOST_ROWS, View, arrange

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def run(number: int, **more: Any) -> ListedRun:
    args = {name: str(value) for name, value in more.pop("args", {}).items()}
    row = canned.run_row(f"mnist-{number:08x}", NOW - timedelta(hours=number), args=args, **more)
    return ListedRun.of(reading.run_of(row))


def view(query: str) -> View:
    return View.of(QueryParams(query))


def ids(runs: list[ListedRun], query: str) -> list[list[str]]:
    return [[each.id[-1] for each in group.shown] for group in arrange(runs, view(query)).groups]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["1", "2", "3", "4"]),
        ("sort=args.lr", ["3", "1", "2", "4"]),
        ("sort=-args.lr", ["2", "1", "3", "4"]),
        ("sort=-run", ["4", "3", "2", "1"]),
        ("sort=-cost&state=succeeded", ["1", "2"]),
        ("q=LR%3D0.1", ["1"]),
        ("q=team%3Dvision+mnist", ["1", "3"]),
        ("state=failed", ["3", "4"]),
        ("sort=nothing", ["1", "2", "3", "4"]),
    ],
)
def test_runs_are_filtered_and_sorted_and_runs_without_a_value_come_last(
    query: str, expected: list[str]
) -> None:
    runs = [
        run(1, args={"lr": "0.1"}, outcome="succeeded", dollars=2, labels={"team": "vision"}),
        run(2, args={"lr": 10}, outcome="succeeded", dollars=1),
        run(3, args={"lr": 0.05}, outcome="failed", labels={"team": "vision"}),
        run(4, outcome="stopped"),
    ]
    assert ids(runs, query) == [expected]


def test_runs_are_grouped_by_a_label_and_runs_without_it_come_last() -> None:
    runs = [run(1), run(2, labels={"team": "b"}), run(3, labels={"team": "a"}), run(4, labels={"team": "b"})]
    groups = arrange(runs, view("group=label.team")).groups
    assert [(group.key, len(group.runs)) for group in groups] == [("b", 2), ("a", 1), ("", 1)]
    assert ids(runs, "group=label.team&closed=b") == [[], ["3"], ["1"]]
    assert ids(runs, "group=label.team&sort=run") == [["2", "4"], ["3"], ["1"]]


def test_a_long_list_shows_its_first_rows_and_how_many_follow() -> None:
    runs = [run(number, labels={"team": str(number % 300)}) for number in range(1_000)]
    arranged = arrange(runs, view(""))
    assert (len(arranged.groups[0].shown), arranged.more) == (FEW_ROWS, 1_000 - FEW_ROWS)
    groups = arrange(runs, view("group=label.team&open=299")).groups
    assert [group.key for group in groups if group.is_open] == [*map(str, range(50)), "299"]


@pytest.mark.parametrize("most", ["-1", "1e9", "99999999999999999999", "\N{ARABIC-INDIC DIGIT FIVE}", "x"])
def test_a_strange_number_of_rows_is_within_the_limits(most: str) -> None:
    assert FEW_ROWS <= view(f"most={most}").most <= MOST_ROWS


def test_a_view_is_what_its_address_says() -> None:
    shown = view(
        "column=metric.a,b/c&column=cost&column=nothing&column=args.&group=label.x&q=a&closed=1&closed=2"
    )
    assert shown.columns == ("metric.a,b/c", "cost")
    assert view("column=nothing&group=cost").columns == DEFAULT
    assert view("group=cost").group == ""
    query = QueryParams([(key, each) for key, value in shown.query.items() for each in _several(value)])
    assert View.of(query) == shown


def _several(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def test_a_metric_of_500_characters_can_be_a_column_and_100_000_names_are_cut() -> None:
    assert column_of("metric." + "\N{GREEK SMALL LETTER ALPHA}" * 500)
    runs = [run(1, scalars={f"m{number}": 1 for number in range(100_000)})]
    names = choices_in(runs, ("metric.chosen",)).metrics
    assert "chosen" in names
    assert len(names) < 300


@pytest.fixture
def cloud() -> canned.Cloud:
    return canned.cloud(runs=12)


def test_chosen_columns_are_shown_in_their_order(cloud: canned.Cloud) -> None:
    text = owner(cloud).get("/?column=args.lr&column=metric.val/accuracy&column=type&column=market").text
    heads = re.findall(r'data-sort="([^"]*)"', text)
    assert heads == ["run", "args.lr", "metric.val/accuracy", "type", "market"]
    row = said(text.partition('id="row-mnist-00000003"')[2].partition("</tr>")[0])
    assert "0.5 0.93 g6.xlarge spot" in row


def test_trials_are_listed_below_their_study_only_if_the_list_is_grouped_by_study(
    cloud: canned.Cloud,
) -> None:
    client = owner(cloud)
    trial = f'href="/runs/{STUDY}-'
    assert trial not in client.get("/").text
    text = client.get("/?group=study").text
    assert trial in text
    assert f'<a href="/studies/{STUDY}">Open the study</a>' in text
    assert trial not in client.get(f"/?group=study&closed={STUDY}").text


def test_events_bring_the_view_of_their_address(cloud: canned.Cloud) -> None:
    events = owner(cloud).get("/events?group=label.team&column=cost").text
    assert 'data-group="vision"' in html.unescape(events)
    assert 'data-sort="loss"' not in events


def test_names_of_columns_and_groups_stay_text(cloud: canned.Cloud) -> None:
    bad = "<script>alert(1)</script>\u202e"
    cloud.stories[FAILED].row |= {"labels": {bad: bad}, "scalars": {bad: 1}}
    client = owner(cloud)
    for query in ({"column": [f"label.{bad}", f"metric.{bad}"]}, {"group": f"label.{bad}"}, {"q": bad}):
        text = client.get("/", params=query).text
        assert "<script>alert" not in text
        assert "\u202e" not in text


# --- in Chromium
@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with driven(tmp_path_factory.mktemp("list")) as driver, served() as address:
        yield Browser.enter(driver, address)


def click(page: Browser, selector: str) -> None:
    page.driver.execute_script("document.querySelector(arguments[0]).click()", selector)


def test_columns_groups_and_order_are_kept_in_the_address_and_in_the_browser(page: Browser) -> None:
    page.open("/")
    page.until("the rows", lambda: page.all("tr[data-row]"))
    page.type("c")
    page.until("the columns to choose from", lambda: page.all("#columns[open]"))
    click(page, '[data-column][value="args.lr"]')
    page.until("the new column", lambda: page.all('th[data-name="args.lr"]'))
    page.press("Done")
    click(page, '[data-sort="cost"]')
    page.until("the order", lambda: page.all('th[data-name="cost"][aria-sort="descending"]'))
    page.driver.execute_script(
        "const s = document.querySelector('#group'); s.value = 'label.team';"
        "s.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    page.until("groups", lambda: page.all('[data-group="vision"]'))
    assert "group=label.team" in page.driver.current_url
    page.open("/")
    page.until("the groups again", lambda: page.all('[data-group="vision"]'))
    assert page.all('th[data-name="args.lr"]')
    click(page, "[data-choose]")
    click(page, "[data-reset]")
    page.until("the columns as before", lambda: not page.all('th[data-name="args.lr"]'))


def test_runs_of_several_groups_are_compared_and_a_closed_group_keeps_its_picks(page: Browser) -> None:
    page.open("/?group=label.team&column=state")
    page.until("groups", lambda: page.all('[data-group="vision"]'))
    click(page, f'[data-pick][value="{TRAINING}"]')
    click(page, f'[data-pick][value="{WAITING}"]')
    page.until("a link to compare", lambda: page.text("[data-compare]") == "Compare 2 runs")
    click(page, '[data-group="vision"]')
    page.until("a closed group", lambda: page.all('[data-group="vision"][aria-expanded="false"]'))
    page.until("no row of it", lambda: not page.all(f"#row-{TRAINING}"))
    link = page.all("[data-compare]")[0].get_attribute("href")
    assert link
    assert link.endswith(f"/compare?runs={TRAINING},{WAITING}")
    assert page.same_page
    assert page.complaints == []


def test_typing_filters_the_list_and_the_counts_follow(page: Browser) -> None:
    page.open("/?column=state")
    page.until("the rows", lambda: page.all("tr[data-row]"))
    page.type("/")
    page.type(f"{TRAINING[:7]} team=vision")
    page.until(
        "only this run",
        lambda: [row.get_attribute("id") for row in page.all("tr[data-row]")] == [f"row-{TRAINING}"],
    )
    page.until("its count", lambda: page.text('[data-state=""] output') == "1")
    assert "q=digits-" in page.driver.current_url
