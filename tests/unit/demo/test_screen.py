"""What the demo says, from what it saw."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from demo.report import spans
from demo.screen import news, sparkline
from demo.watch import Entry, Host, Progress, View
from demo.yard import Execution

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
EXECUTION = Execution("arn:aws:states:us-east-1:1:execution:train:digits-1", "RUNNING", NOON, None, "", "")
HOST = Host(
    instance="i-1",
    role="",
    type="g6.xlarge",
    zone="us-east-1a",
    market="spot",
    address="",
    price=0.36,
    on_demand_price=0.8,
    launched=NOON,
    ended=None,
    state="running",
)
VIEW = View(
    at=NOON + timedelta(seconds=100),
    execution=EXECUTION,
    attempt=1,
    states=((NOON, "Admit"), (NOON + timedelta(seconds=2), "Plan")),
    hosts=(HOST,),
    timeline=(Entry(NOON + timedelta(seconds=5), "host", "ready", "i-1", ""),),
    progress=None,
    outcome="",
    reason="",
)


def test_the_first_look_tells_everything_in_the_order_of_time() -> None:
    lines = news(None, VIEW)
    assert [line.split()[1] for line in lines] == ["state", "state", "host", "host"]
    assert lines[0] == "12:00:00 state     Admit"
    assert "g6.xlarge in us-east-1a, spot, $0.360/h" in lines[-1]


def test_the_same_look_twice_tells_nothing() -> None:
    assert news(VIEW, VIEW) == []


def test_a_role_a_state_and_a_step_are_news() -> None:
    progress = Progress(step=5, steps=10, epoch=1, loss=0.5, accuracy=None, steps_per_second=2)
    later = replace(VIEW, hosts=(replace(HOST, role="chief 0", state="terminated"),), progress=progress)
    assert [line.partition(" ")[2] for line in news(VIEW, later)] == [
        "host      i-1  is chief 0",
        "host      i-1  terminated",
        "progress  step 5/10  loss 0.5000  2.0 steps/s  $0.0100 so far",
    ]


def test_a_host_costs_until_it_ended() -> None:
    ended = replace(HOST, ended=NOON + timedelta(seconds=50))
    assert round(HOST.dollars(VIEW.at), 4) == 0.01
    assert round(ended.dollars(VIEW.at), 4) == 0.005


def test_states_entered_twice_are_added_up() -> None:
    states = tuple(
        (NOON + timedelta(seconds=at), name) for at, name in ((0, "Launch"), (3, "Wait"), (10, "Launch"))
    )
    over = replace(EXECUTION, status="SUCCEEDED", stopped=NOON + timedelta(seconds=12))
    assert spans(replace(VIEW, execution=over, states=states)) == [("Launch", 5.0), ("Wait", 7.0)]


def test_a_sparkline_rises_with_its_values() -> None:
    assert sparkline([1.0, 2.0, 3.0]) == "▁▅█"
    assert sparkline([]) == ""
    assert len(sparkline([float(n) for n in range(200)])) == 60
