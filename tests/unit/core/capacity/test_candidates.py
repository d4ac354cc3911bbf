"""Every capacity pool is a candidate with a place in the order, or excluded with a reason."""
# ruff: noqa: E501 - one line a row

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from lambdas.core.capacity import candidates
from lambdas.core.capacity.candidates import NoPlan
from lambdas.core.capacity.image_choice import ImageSource
from lambdas.core.capacity.prices import Prices
from tests.unit.core.builders import (
    AMI,
    CPU_ON_DEMAND,
    CPU_SPOT,
    CPU_TYPES,
    G_ON_DEMAND,
    G_SPOT,
    NOON,
    ZONES,
    an_image,
    image_reference,
    job,
    plan_inputs,
    prices,
    served_job,
)
from tests.unit.core.capacity.planning import planned
from trainyard.core.model.hardware import Hardware
from trainyard.core.model.images.image import Image, Snapshot
from trainyard.core.model.job import Job, one_host_job
from trainyard.protocol.plan import Candidate, Excluded, Market, Plan
from trainyard.values import serialization


def refused(made: Job, **inputs: Any) -> NoPlan:
    answer = candidates.make_plan(made, plan_inputs(**inputs), now=NOON)
    assert isinstance(answer, NoPlan)
    return answer


def pools(plan: Plan) -> list[str]:
    return [f"{each.type[:2]} {each.zone[-1]} {each.market}" for each in plan.candidates]


PRICES = {
    ("g6.xlarge", "us-east-1a"): 0.40,
    ("g6.xlarge", "us-east-1b"): 0.20,
    ("g6.xlarge", "us-east-1c"): 0.30,
    ("g5.xlarge", "us-east-1a"): 0.25,
    ("g5.xlarge", "us-east-1b"): 0.30,
    ("g5.xlarge", "us-east-1c"): 0.50,
}


def test_spot_pools_go_by_price_and_ties_by_the_jobs_order() -> None:
    plan = planned(job(), spot_prices=PRICES)
    spot = ["g6 b spot", "g5 a spot", "g6 c spot", "g5 b spot", "g6 a spot", "g5 c spot"]
    on_demand = [f"{name} {zone} on_demand" for name, zone in product(("g6", "g5"), "abc")]
    assert pools(plan) == spot + on_demand


def test_only_the_markets_the_job_allows_are_offered() -> None:
    for market in Market:
        hardware = {"instance_types": ["g6.xlarge"], "market": market.value}
        assert {each.market for each in planned(job(hardware=hardware)).candidates} == {market}


def test_the_order_does_not_depend_on_the_order_of_facts() -> None:
    turned = dict(reversed([*plan_inputs().subnets.items()]))
    assert planned(job(), subnets=turned).candidates == planned(job()).candidates


def test_an_offer_knows_its_subnet_and_both_prices() -> None:
    first = planned(job(), spot_prices=PRICES).candidates[0]
    assert (first.subnet, first.price, first.on_demand_price) == ("subnet-b", 0.20, 0.805)
    assert first.pool == "g6.xlarge in us-east-1b, spot"


def test_a_plan_survives_the_ledger() -> None:
    plan = planned(job(hardware={"max_dollars_per_hour": 1.0}))
    assert serialization.from_json(Plan, serialization.to_json(plan)) == plan


def one_type(market: str = "spot", name: str = "g6.xlarge", **more: Any) -> Job:
    return job(hardware={"instance_types": [name], "market": market, **more})


EXCLUDED = [
    # name, job, inputs, code, parts of the reason
    (
        "an old GPU, which EC2 does not offer there either",
        one_type("on_demand", "p3.2xlarge"),
        {},
        "incompatible",
        ["V100 (Volta)", "need a Turing or newer", "does not offer the type"],
    ),
    (
        "an arm64 type with an x86_64 image",
        one_type("on_demand", "g5g.xlarge"),
        {"offered": frozenset(("g5g.xlarge", zone) for zone in ZONES)},
        "incompatible",
        ["processors are arm64, the image is for x86_64"],
    ),
    ("a zone without the type", one_type(), {"offered": frozenset()}, "not_offered", ["does not offer the type"]),
    ("a zone without spot price", one_type(), {"spot_prices": {}}, "no_spot_price", ["no spot price"]),
    ("no known price", one_type("on_demand", "p5e.48xlarge"), {}, "no_price", ["on-demand price of the type is unknown"]),
    (
        "no quota",
        one_type(),
        {"quotas": {G_SPOT: 0.0}},
        "no_quota",
        ["2 x g6.xlarge need 8 vCPUs", "All G and VT Spot Instance Requests", G_SPOT, "is 0.",
         f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {G_SPOT}",
         "--desired-value 8 --region us-east-1"],
    ),
    (
        "a gang above the hourly cap",
        one_type("on_demand", max_dollars_per_hour=1.5),
        {},
        "too_expensive",
        ["2 hosts there: $1.610 an hour", "max_dollars_per_hour is $1.5"],
    ),
    (
        "both quota and cap",
        one_type("on_demand", max_dollars_per_hour=1),
        {"quotas": {G_ON_DEMAND: 4.0}},
        "no_quota",
        ["need 8 vCPUs", "$1.610 an hour"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "inputs", "code", "said"), [row[1:] for row in EXCLUDED], ids=[r[0] for r in EXCLUDED]
)
def test_an_excluded_pool_keeps_its_reason(
    made: Job, inputs: dict[str, Any], code: str, said: list[str]
) -> None:
    answer = refused(made, **inputs)
    assert {each.code for each in answer.excluded} == {code}
    assert len(answer.excluded) == 3
    for part in said:
        assert all(part in each.reason for each in answer.excluded)
        assert part in answer.reason


def test_a_type_that_the_image_does_not_serve_leaves_the_others() -> None:
    plan = planned(job(hardware={"instance_types": ["p2.xlarge", "g6.xlarge"]}))
    assert {each.type for each in plan.candidates} == {"g6.xlarge"}
    assert {(each.type, each.code) for each in plan.excluded} == {("p2.xlarge", "incompatible")}


@pytest.mark.parametrize(
    ("quotas", "asked"),
    [
        ({}, {"g6.xlarge"}),
        ({G_SPOT: 0.0, G_ON_DEMAND: 4.0}, {"g6.xlarge"}),
        ({G_SPOT: 0.0, G_ON_DEMAND: 0.0}, {"m7i.xlarge"}),
    ],
    ids=["both could be had", "one market has GPUs", "no quota for GPUs"],
)
def test_of_a_list_with_both_those_without_a_gpu_are_asked_where_no_other_can_be(
    quotas: dict[str, float], asked: set[str]
) -> None:
    """Only a recipe may list both types. A job file with both is refused."""
    builder = one_host_job(
        "bake", Hardware(instance_types=("m7i.xlarge", "g6.xlarge")), hours=1, wait_minutes=1
    )
    every = dict.fromkeys((G_SPOT, G_ON_DEMAND, CPU_SPOT, CPU_ON_DEMAND), 100.0)
    plan = planned(builder, quotas=every | quotas)
    assert {each.type for each in plan.candidates} == asked
    assert len(plan.candidates) + len(plan.excluded) == 12
    if asked == {"g6.xlarge"}:
        assert "no_gpu" in {each.code for each in plan.excluded}


def test_cpu_hosts_of_other_processors_cannot_stand_beside() -> None:
    arm = image_reference(ImageSource.PARAMETER, AMI, an_image(architecture="arm64"))
    inputs = {"image": arm, "offered": frozenset((n, z) for n in ("g5g.xlarge", *CPU_TYPES) for z in ZONES)}
    answer = refused(served_job(instance_types=["g5g.xlarge"], market="on_demand"), **inputs)
    assert {each.code for each in answer.excluded} == {"incompatible"}
    assert "c7i.large, m7i.xlarge: The type's processors are x86_64, the image is for arm64." in answer.reason


def test_a_zone_without_subnet_is_said() -> None:
    plan = planned(one_type(), subnets={"us-east-1a": "subnet-a"})
    assert [each.zone for each in plan.candidates] == ["us-east-1a"]
    assert {each.zone: each.code for each in plan.excluded} == dict.fromkeys(ZONES[1:], "no_subnet")


def test_a_quota_that_just_suffices_is_enough() -> None:
    assert planned(one_type(), quotas={G_SPOT: 8.0}).candidates


def test_an_unknown_quota_is_not_zero() -> None:
    assert planned(one_type(), quotas={}).candidates
    assert planned(one_type("spot", "p6-b200.48xlarge"), quotas={}).candidates


def test_the_same_reason_is_said_once_for_all_its_pools() -> None:
    answer = refused(job(), quotas={G_SPOT: 0.0, G_ON_DEMAND: 0.0})
    assert answer.error == "QuotaExceeded"
    assert len(answer.excluded) == 12
    assert answer.reason.count(f"--quota-code {G_SPOT}") == 2  # one sentence a type
    assert "us-east-1a, us-east-1b, us-east-1c" in answer.reason


def test_mixed_reasons_mean_no_capacity() -> None:
    answer = refused(
        job(hardware={"market": "spot_then_on_demand"}), spot_prices={}, quotas={G_ON_DEMAND: 0.0}
    )
    assert answer.error == "NoCapacity"


ALICES = an_image(kind="snapshot", dev="mine", submitter="alice")
IMAGES = [
    # source, value, EC2's image, error, part of the reason
    (ImageSource.PARAMETER, None, None, "Misconfigured", "/trainyard/image does not exist"),
    (ImageSource.PARAMETER, "none", None, "Misconfigured", "Run the bake state machine"),
    (ImageSource.PARAMETER, "latest", None, "Misconfigured", "not the id of an image"),
    (ImageSource.PARAMETER, AMI, None, "Misconfigured", "does not exist here"),
    (ImageSource.PARAMETER, AMI, an_image(yard="other"), "Misconfigured", "this yard did not make"),
    (ImageSource.PARAMETER, AMI, an_image("pending"), "Misconfigured", f"{AMI} is pending. Wait until it is"),
    (ImageSource.PARAMETER, AMI, an_image("failed"), "Misconfigured", f"{AMI} is failed. Use another"),
    (
        ImageSource.JOB,
        AMI,
        None,
        "JobRefused",
        f"hardware.image: the yard has no image, run with an image, or image family called '{AMI}'",
    ),
    (ImageSource.JOB, "digits", None, "JobRefused", "image family called 'digits'"),
    (ImageSource.JOB, AMI, an_image(yard="other"), "JobRefused", "lacks the tag trainyard:yard=trainyard"),
    (ImageSource.JOB, "digits", an_image("pending"), "JobRefused", "is pending. Wait"),
    (ImageSource.JOB, AMI, ALICES, "JobRefused", "belongs to alice's dev host mine, and contains its files"),
    (
        ImageSource.RUN,
        AMI,
        None,
        "Misconfigured",
        "which the run was admitted with, no longer exists here",
    ),
    (ImageSource.RUN, AMI, an_image("disabled"), "Misconfigured", "is disabled"),
]


@pytest.mark.parametrize(("source", "named", "image", "error", "said"), IMAGES)
def test_without_a_usable_image_nothing_is_planned(
    source: ImageSource, named: str | None, image: Image | None, error: str, said: str
) -> None:
    answer = refused(job(), image=image_reference(source, named, image))
    assert answer.error == error
    assert said in answer.reason


@pytest.mark.parametrize(
    ("source", "image"),
    [
        (ImageSource.JOB, an_image(ami="ami-0123456789abcdef1")),
        (ImageSource.RUN, an_image(ami="ami-0123456789abcdef1", yard="no yard's: the base image of a bake")),
    ],
)
def test_the_plan_names_the_image_that_was_found(source: ImageSource, image: Image) -> None:
    assert planned(job(), image=image_reference(source, "digits", image)).image == "ami-0123456789abcdef1"


def test_the_owner_of_a_dev_host_trains_from_its_image_and_nobody_else() -> None:
    for submitter, may in (("alice", True), ("bob", False), (None, False)):
        image = replace(image_reference(ImageSource.JOB, AMI, ALICES), submitter=submitter)
        if may:
            assert planned(job(), image=image).image == AMI
        else:
            assert refused(job(), image=image).error == "JobRefused"


def test_a_missing_image_does_not_hide_a_missing_quota() -> None:
    unbaked = image_reference(ImageSource.PARAMETER, "none")
    answer = refused(one_type(), image=unbaked, quotas={G_SPOT: 0.0})
    assert "bake" in answer.reason
    assert G_SPOT in answer.reason


def test_every_pool_is_accounted_for_exactly_once() -> None:
    types = ["g6.xlarge", "g5.xlarge", "p5e.48xlarge"]
    hardware = {"instance_types": types, "max_dollars_per_hour": 1.8}
    inputs = replace(plan_inputs(), spot_prices=PRICES)
    plan = candidates.make_plan(job(hardware=hardware), inputs, now=NOON)
    assert isinstance(plan, Plan)
    found: list[Candidate | Excluded] = [*plan.candidates, *plan.excluded]
    assert sorted((each.type, each.zone, each.market) for each in found) == sorted(
        product(types, ZONES, Market)
    )


def test_the_codes_to_ask_for_are_those_of_the_jobs_types_and_markets() -> None:
    assert candidates.quota_codes(job()) == (G_SPOT, G_ON_DEMAND)
    assert candidates.quota_codes(one_type("on_demand")) == (G_ON_DEMAND,)
    assert candidates.quota_codes(served_job(market="on_demand")) == (CPU_ON_DEMAND, G_ON_DEMAND)


# ------------------------------------------------------------------------------------------------- a second gang


CPU_PRICES = {("c7i.large", zone): 0.05 for zone in ZONES} | {("m7i.xlarge", zone): 0.04 for zone in ZONES}


def test_an_offer_names_the_cpu_types_beside_it_cheapest_first() -> None:
    plan = planned(served_job(market="spot"), spot_prices=PRICES | CPU_PRICES)
    first = plan.candidates[0]
    assert [(each.type, each.price) for each in first.beside] == [("m7i.xlarge", 0.04), ("c7i.large", 0.05)]
    assert [each.on_demand_price for each in first.beside] == [0.2016, 0.08925]
    assert (plan.gang, plan.cpu_gang) == (5, 2)
    assert "beside 2 x m7i.xlarge, $0.680 an hour for the gang" in plan.reason  # 3 x 0.20 + 2 x 0.04
    assert serialization.from_json(Plan, serialization.to_json(plan)) == plan


def test_pools_go_by_the_price_of_both_gangs() -> None:
    dear = CPU_PRICES | {(name, "us-east-1b"): 0.5 for name in CPU_TYPES}
    plan = planned(served_job(market="spot"), spot_prices=PRICES | dear)
    assert pools(plan) == ["g6 c spot", "g6 a spot", "g6 b spot"]


def test_a_job_without_cpu_hosts_needs_no_cpu_type() -> None:
    alone = served_job(market="spot", cpu_instance_types=[], cpu_roles=[])
    plan = planned(alone, spot_prices=PRICES | CPU_PRICES)
    assert (plan.gang, plan.cpu_gang) == (5, 0)
    assert not any(each.beside for each in plan.candidates)


BESIDE = [
    # name, hardware, inputs, code of the first reason (None: a candidate), CPU types or parts of reasons
    ("a quota of each family", {}, {"quotas": {G_SPOT: 12.0, CPU_SPOT: 4.0}}, None, ["c7i.large"]),
    ("the GPUs' quota counts GPU hosts only", {}, {"quotas": {G_SPOT: 11.0}}, "no_quota", ["3 x g6.xlarge need 12 vCPUs"]),
    ("the CPUs' quota is full", {}, {"quotas": {CPU_SPOT: 3.0}}, "no_quota",
     ["No CPU type of hardware.cpu_instance_types can be launched beside it", "2 x c7i.large need 4 vCPUs", CPU_SPOT]),
    ("one CPU type has no price", {}, {"spot_prices": {("g6.xlarge", "us-east-1a"): 0.3, ("m7i.xlarge", "us-east-1a"): 0.1}}, None, ["m7i.xlarge"]),
    ("no CPU type is offered there", {}, {"offered": frozenset({("g6.xlarge", "us-east-1a")})}, "not_offered",
     ["No CPU type of hardware.cpu_instance_types is offered in that zone."]),
    ("each CPU type has its own reason", {}, {"offered": frozenset({("g6.xlarge", "us-east-1a"), ("m7i.xlarge", "us-east-1a")}), "quotas": {CPU_SPOT: 0.0}},
     "no_cpu_type", ["c7i.large: EC2 does not offer the type", "m7i.xlarge: 2 x m7i.xlarge need 8 vCPUs"]),
    ("both gangs are above the cap", {"max_dollars_per_hour": 0.99}, {}, "too_expensive", ["5 hosts there: $1.000 an hour"]),
    ("only the cheaper CPU type is below it", {"max_dollars_per_hour": 1.0}, {}, None, ["c7i.large"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("hardware", "inputs", "code", "said"), [row[1:] for row in BESIDE], ids=[row[0] for row in BESIDE]
)
def test_a_pool_must_hold_both_gangs(
    hardware: dict[str, Any], inputs: dict[str, Any], code: str | None, said: list[str]
) -> None:
    made = served_job(market="spot", **hardware)
    prices = {
        ("g6.xlarge", "us-east-1a"): 0.3,
        ("c7i.large", "us-east-1a"): 0.05,
        ("m7i.xlarge", "us-east-1a"): 0.1,
    }
    known = {"subnets": {"us-east-1a": "subnet-a"}, "spot_prices": prices} | inputs
    answer = candidates.make_plan(made, plan_inputs(**known), now=NOON)
    if code is None:
        assert isinstance(answer, Plan)
        assert [each.type for each in answer.candidates[0].beside] == said
    else:
        assert {each.code for each in answer.excluded if each.zone == "us-east-1a"} == {code}
        for part in said:
            assert part in answer.excluded[0].reason


# ------------------------------------------------------------------------------------------- whose prices

EU = {"g6.xlarge": 1.0066, "g5.xlarge": 1.258}
EUROPE = prices("eu-central-1", on_demand=EU, storage={"disk": 0.0952})
UNREAD = Prices("eu-central-1")


def on_demand(**hardware: Any) -> Job:
    return job(hardware={"instance_types": ["g6.xlarge", "g5.xlarge"], "market": "on_demand", **hardware})


def test_a_plan_counts_by_the_prices_of_its_region_and_says_so() -> None:
    plan = planned(on_demand(), prices=EUROPE)
    assert {
        candidate.type: (candidate.price, candidate.on_demand_price) for candidate in plan.candidates
    } == {name: (dollars, dollars) for name, dollars in EU.items()}
    assert plan.gib_month == 0.0952
    assert plan.prices == "prices of eu-central-1, 2026-11-20"
    assert "$2.013 an hour for the gang. On-demand and disk prices: prices of eu-central-1, " in plan.reason
    assert serialization.from_json(Plan, serialization.to_json(plan)) == plan


def test_a_plan_without_them_counts_by_another_regions_and_says_why() -> None:
    plan = planned(on_demand(), prices=UNREAD)
    assert {candidate.price for candidate in plan.candidates} == {0.805, 1.006}
    assert plan.prices.startswith("prices of us-east-1, 2026-07-20: patrol has not read")
    assert plan.prices in plan.reason


def test_the_hourly_cap_counts_by_them() -> None:
    within = on_demand(max_dollars_per_hour=1.7)
    assert {candidate.type for candidate in planned(within, prices=UNREAD).candidates} == {"g6.xlarge"}
    answer = refused(within, prices=EUROPE)
    assert {each.code for each in answer.excluded} == {"too_expensive"}
    assert "2 hosts there: $2.013 an hour; hardware.max_dollars_per_hour is $1.7." in answer.reason
    unread = refused(on_demand(max_dollars_per_hour=1.5), prices=UNREAD)
    assert "$1.610 an hour (prices of us-east-1, 2026-07-20: patrol has not read" in unread.reason


def test_what_is_on_spot_costs_what_ec2_says_and_saves_by_its_region() -> None:
    (first, *_) = planned(
        job(hardware={"instance_types": ["g5.xlarge"], "market": "spot"}), prices=EUROPE
    ).candidates
    assert (first.price, first.on_demand_price) == (0.3, 1.258)


def test_the_zones_that_a_job_names_are_the_only_ones_asked() -> None:
    plan = planned(job(hardware={"instance_types": ["g6.xlarge"], "zones": ["us-east-1c", "us-east-1a"]}))
    zones = {each.zone for each in plan.candidates} | {each.zone for each in plan.excluded}
    assert zones == {"us-east-1a", "us-east-1c"}


@pytest.mark.parametrize("zone", ["eu-west-1a", "us-east-1z", "use1-az1"])
def test_a_zone_that_the_yard_has_not_is_refused_with_those_that_it_has(zone: str) -> None:
    no = refused(job(hardware={"zones": ["us-east-1a", zone]}))
    assert no.error == "JobRefused"
    assert f'hardware.zones[1]: "{zone}" is not a zone of this yard, which is in us-east-1' in no.reason
    assert "has subnets in us-east-1a, us-east-1b, us-east-1c;" in no.reason


WITH_DISKS = image_reference(
    ImageSource.PARAMETER,
    AMI,
    replace(an_image(), snapshots=(Snapshot("snap-1", 100), Snapshot("snap-2", 20))),
)


def test_a_larger_disk_is_in_the_plan_with_what_it_costs_and_the_image_is_fetched_as_before() -> None:
    plan = planned(job(hardware={"disk_gib": 500}), image=WITH_DISKS)
    assert (plan.disk_gib, plan.image_gib) == (520, 120)
    assert "an hour for the gang and $0.110 for 2 disks of 500 GiB" in plan.reason


def test_without_a_word_a_disk_is_as_large_as_the_images() -> None:
    plan = planned(job(), image=WITH_DISKS)
    assert (plan.disk_gib, plan.image_gib) == (120, 120)
    assert "disks of" not in plan.reason


def test_a_disk_smaller_than_the_images_is_refused() -> None:
    no = refused(job(hardware={"disk_gib": 99}), image=WITH_DISKS)
    assert no.error == "JobRefused"
    assert f"hardware.disk_gib: found 99; the root disk of the image {AMI} has 100 GiB" in no.reason
    assert planned(job(hardware={"disk_gib": 100}), image=WITH_DISKS).disk_gib == 120


EVERY_STRATEGY: list[dict[str, Any]] = [
    {"strategy": "single"},
    {"strategy": "mirrored"},
    {"strategy": "multi_worker", "workers": 2},
    {"strategy": "parameter_server", "workers": 2, "parameter_servers": 1, "evaluator": True},
]


@pytest.mark.parametrize("cluster", EVERY_STRATEGY, ids=lambda each: str(each["strategy"]))
def test_hosts_without_a_gpu_are_one_gang_of_the_types_named_with_every_strategy(
    cluster: dict[str, Any],
) -> None:
    made = job(cluster=cluster, hardware={"instance_types": list(CPU_TYPES)})
    assert (made.cpu_gang, made.hardware.cpu_instance_types) == (0, ())
    plan = planned(made)
    assert {each.type for each in plan.candidates} == set(CPU_TYPES)
    assert not any(each.beside for each in plan.candidates)


def elastic(**hardware: Any) -> Job:
    made = {"instance_types": ["g6.xlarge"], "market": "spot", **hardware}
    return job(cluster={"workers": {"min": 2, "max": 8}}, hardware=made)


def test_of_min_and_max_workers_as_many_are_asked_for_as_the_quota_holds() -> None:
    plan = planned(elastic(), quotas={G_SPOT: 20.0})
    assert {each.workers for each in plan.candidates} == {5}
    assert (plan.gang, plan.least_gang) == (8, 2)
    assert "5 of 8 workers fit: 6 x g6.xlarge need 24 vCPUs" in plan.reason


def test_and_as_many_as_the_cap_of_dollars_pays_for() -> None:
    plan = planned(elastic(max_dollars_per_hour=1.0), spot_prices=PRICES)
    assert {each.pool: each.workers for each in plan.candidates} == {
        "g6.xlarge in us-east-1b, spot": 5,
        "g6.xlarge in us-east-1c, spot": 3,
        "g6.xlarge in us-east-1a, spot": 2,
    }


def test_a_pool_that_holds_all_says_nothing_of_it() -> None:
    assert {each.workers for each in planned(elastic()).candidates} == {None}


def test_a_pool_that_does_not_hold_the_least_is_out() -> None:
    plan = refused(elastic(), quotas={G_SPOT: 4.0})
    assert plan.error == "QuotaExceeded"
    assert "the gang of at least 2" in plan.reason
    assert "2 x g6.xlarge need 8 vCPUs" in plan.reason


def test_by_speed_the_reason_says_what_is_asked_at_once() -> None:
    plan = planned(
        job(hardware={"instance_types": ["g6.xlarge", "g5.xlarge"], "prefer": "speed"}), spot_prices=PRICES
    )
    assert (
        "by speed, EC2 gets requests for 6 spot pools (EC2 chooses the one with the most room), then 6 on-demand pools "
        "(EC2 chooses the cheapest with room). The cheapest of the first: g6.xlarge in us-east-1b, spot, "
        "$0.400 an hour for the gang"
    ) in plan.reason


def test_by_speed_a_pool_above_the_cap_is_not_among_those_asked() -> None:
    hardware = {"instance_types": ["g6.xlarge", "g5.xlarge"], "prefer": "speed", "max_dollars_per_hour": 0.7}
    plan = planned(job(hardware=hardware), spot_prices=PRICES)
    assert len(plan.candidates) == 4, "two hosts of each cost 70 cents at most"
    assert "EC2 gets requests for 4 spot pools" in plan.reason


def test_by_speed_pools_for_fewer_workers_are_asked_in_a_request_of_their_own() -> None:
    hardware = {
        "instance_types": ["g6.xlarge", "g5.xlarge"],
        "market": "spot",
        "prefer": "speed",
        "max_dollars_per_hour": 1.3,
    }
    plan = planned(job(cluster={"workers": {"min": 2, "max": 4}}, hardware=hardware), spot_prices=PRICES)
    assert [each.workers for each in plan.candidates] == [None, None, None, None, 3, 2]
    assert "for 4 spot pools" in plan.reason
    assert ", then g6.xlarge in us-east-1a, spot, then g5.xlarge in us-east-1c, spot." in plan.reason
