"""A few cases of the campaign (campaign.py) that cover each ending and each kind of odd name."""

import pytest

from tests.contract.agent import campaign
from tests.contract.agent.campaign import Case
from tests.contract.agent.host import Yard

SEEDS = (3004, 3007, 3009, 3014, 3022, 3023)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_generated_program_loses_nothing_and_ends_as_it_ended(seed: int, yard: Yard) -> None:
    campaign.run(Case.of(seed), yard)
