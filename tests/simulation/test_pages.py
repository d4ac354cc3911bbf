"""Lists of AWS come in pages. A run reads all pages, however short they are."""

from dataclasses import replace

from simulation.scenarios import SCENARIOS
from simulation.simulate import simulate
from simulation.template import YardTemplate
from simulation.yard import Yard


def test_a_run_reads_every_page_of_its_rows(yard: YardTemplate) -> None:
    train = SCENARIOS["train"]

    def begin(world: Yard) -> None:
        world.dynamodb.page_size = 2
        train.begin(world)

    result = simulate(yard, replace(train, begin=begin))
    assert not result.broken
    assert "SUCCEEDED" in result.outcome
