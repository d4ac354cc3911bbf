"""The price list, generated from the settings of the local cloud."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from localcloud.base.price_list import ENDPOINTS, PriceList, PriceListError
from localcloud.base.settings import Settings
from simulation.aws.ec2.supply.catalogue import read_shipped
from simulation.aws.endpoint.api import Answer, Caller, Check, Request, ServiceError


@cache
def _read_shipped() -> PriceList:
    return PriceList(read_shipped())


class Pricing:
    def __init__(self, settings: Settings) -> None:
        self.prices = _read_shipped() if settings is read_shipped() else PriceList(settings)

    def get_products(self, caller: Caller, request: Request) -> Answer:
        try:
            return self.prices.get_products(request, asked_in=ENDPOINTS[0])
        except PriceListError as error:
            raise ServiceError(error.code, str(error)) from error

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        return [Check("pricing:GetProducts", "*")]
