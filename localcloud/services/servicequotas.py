"""Service Quotas: the account's quotas from the settings, and increase requests that stay pending."""

from __future__ import annotations

import asyncio
import json
import pickle
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ministack.core.responses import get_account_id, get_region, new_uuid

from localcloud.base.context import Context
from localcloud.base.settings import Quota, Settings
from localcloud.patches import MINISTACK

NAME = "servicequotas"
TARGET = "ServiceQuotasV20190624"
Body = dict[str, Any]
EC2 = {"ServiceCode": "ec2", "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)"}
NO_SUCH_QUOTA = "The request failed because the specified quota does not exist."
OPEN = ("PENDING", "CASE_OPENED")


class ServiceQuotasError(Exception):
    """An error of the service: code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class ServiceQuotas:
    """The operations, each from the request's body to the answer's."""

    settings: Settings
    changed: Callable[[], None]
    requests: list[Body] = field(default_factory=list)

    def get_service_quota(self, body: Body) -> Body:
        """Return the applied quota. A quota with only AWS's default is not found."""
        code, quota = self._quota(body)
        if quota.applied is None:
            raise ServiceQuotasError("NoSuchResourceException", NO_SUCH_QUOTA)
        return {"Quota": describe_quota(code, quota, quota.applied)}

    def get_default(self, body: Body) -> Body:
        """Return AWS's default quota."""
        code, quota = self._quota(body)
        return {"Quota": describe_quota(code, quota, quota.default)}

    def list_quotas(self, body: Body) -> Body:
        """Return every applied quota of the service."""
        applied = {
            code: quota
            for code, quota in self._list_service_quotas(body).items()
            if quota.applied is not None
        }
        return _page("Quotas", [describe_quota(code, q, q.value) for code, q in applied.items()], body)

    def list_defaults(self, body: Body) -> Body:
        """Return every default quota of the service."""
        return _page(
            "Quotas",
            [describe_quota(c, q, q.default) for c, q in self._list_service_quotas(body).items()],
            body,
        )

    def list_services(self, body: Body) -> Body:
        """Return EC2, the only service with quotas here."""
        return {"Services": [EC2]}

    def request_increase(self, body: Body) -> Body:
        """Record the request, which stays PENDING forever."""
        code, quota = self._quota(body)
        if float(body["DesiredValue"]) <= quota.value:
            raise ServiceQuotasError(
                "IllegalArgumentException",
                f"The desired value must be greater than the current value {quota.value:g}.",
            )
        if any(r["QuotaCode"] == code and r["Status"] in OPEN for r in self.requests):
            raise ServiceQuotasError(
                "ResourceAlreadyExistsException",
                "Only one open service quota increase request is allowed per quota.",
            )
        request = {
            "Id": new_uuid().replace("-", ""),
            **EC2,
            "QuotaCode": code,
            "QuotaName": quota.name,
            "DesiredValue": float(body["DesiredValue"]),
            "Status": "PENDING",
            "Created": time.time(),
            "LastUpdated": time.time(),
            "QuotaArn": quota_arn(code),
            "GlobalQuota": False,
            "Unit": "None",
        }
        self.requests.append(request)
        self.changed()
        return {"RequestedQuota": request}

    def get_request(self, body: Body) -> Body:
        """Return a request by its id."""
        for request in self.requests:
            if request["Id"] == body["RequestId"]:
                return {"RequestedQuota": request}
        raise ServiceQuotasError("NoSuchResourceException", "The specified request does not exist.")

    def history(self, body: Body) -> Body:
        """Return the requests of a service, filtered by quota and state."""
        matching = [
            request
            for request in self.requests
            if all(request[key] == body[key] for key in ("ServiceCode", "QuotaCode", "Status") if key in body)
        ]
        return _page("RequestedQuotas", matching, body)

    def _list_service_quotas(self, body: Body) -> Mapping[str, Quota]:
        if body["ServiceCode"] != "ec2":
            raise ServiceQuotasError(
                "NoSuchResourceException", f"The service {body['ServiceCode']} does not exist here."
            )
        return self.settings.quotas

    def _quota(self, body: Body) -> tuple[str, Quota]:
        code = body["QuotaCode"]
        quota = self._list_service_quotas(body).get(code)
        if quota is None:
            raise ServiceQuotasError("NoSuchResourceException", NO_SUCH_QUOTA)
        return code, quota


def describe_quota(code: str, quota: Quota, value: float) -> Body:
    """Return a quota in the service's format."""
    market = "Spot" if quota.market == "spot" else "OnDemand"
    family = "Standard" if "t" in quota.families else quota.families[0].upper()
    return {
        **EC2,
        "QuotaArn": quota_arn(code),
        "QuotaCode": code,
        "QuotaName": quota.name,
        "Value": float(value),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
        "UsageMetric": {
            "MetricNamespace": "AWS/Usage",
            "MetricName": "ResourceCount",
            "MetricDimensions": {
                "Service": "EC2", "Type": "Resource", "Resource": "vCPU", "Class": f"{family}/{market}",
            },
            "MetricStatisticRecommendation": "Maximum",
        },
    }  # fmt: skip


def quota_arn(code: str) -> str:
    return f"arn:aws:servicequotas:{get_region()}:{get_account_id()}:ec2/{code}"


def _page(key: str, rows: list[Body], body: Body) -> Body:
    start, size = int(body.get("NextToken") or 0), int(body.get("MaxResults") or 100)
    answer: Body = {key: rows[start : start + size]}
    return answer if start + size >= len(rows) else {**answer, "NextToken": str(start + size)}


def install(context: Context) -> None:
    """Answer the service `service-quotas`, which ministack lacks."""
    quotas = ServiceQuotas(context.settings, context.store.request_write)
    operations: dict[str, Callable[[Body], Body]] = {
        "GetServiceQuota": quotas.get_service_quota,
        "GetAWSDefaultServiceQuota": quotas.get_default,
        "ListServiceQuotas": quotas.list_quotas,
        "ListAWSDefaultServiceQuotas": quotas.list_defaults,
        "ListServices": quotas.list_services,
        "RequestServiceQuotaIncrease": quotas.request_increase,
        "GetRequestedServiceQuotaChange": quotas.get_request,
        "ListRequestedServiceQuotaChangeHistory": quotas.history,
        "ListRequestedServiceQuotaChangeHistoryByQuota": quotas.history,
    }

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> tuple[int, dict[str, str], bytes]:
        name = headers.get("x-amz-target", "").split(".")[-1]
        status, answer = await asyncio.to_thread(_answer, operations, name, body)
        return status, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(answer).encode()

    MINISTACK.extend("app:SERVICE_HANDLERS", {NAME: handle})
    pattern = {"target_prefixes": [TARGET], "host_patterns": []}
    MINISTACK.extend("core.router:SERVICE_PATTERNS", {NAME: pattern})
    MINISTACK.extend("core.iam_actions:SERVICE_TO_IAM_NAMESPACE", {NAME: NAME})

    def restore(saved: bytes) -> None:
        quotas.requests[:] = pickle.loads(saved)  # noqa: S301 - our own file in the state folder

    context.store.keep("servicequotas", lambda: pickle.dumps(quotas.requests), restore)


def _answer(operations: Mapping[str, Callable[[Body], Body]], name: str, body: bytes) -> tuple[int, Body]:
    operation = operations.get(name)
    if operation is None:
        return 400, {
            "__type": "UnknownOperationException",
            "message": f"the local cloud does not support {name}",
        }
    try:
        return 200, operation(json.loads(body or b"{}"))
    except ServiceQuotasError as error:
        return 400, {"__type": error.code, "message": str(error)}
    except (KeyError, ValueError) as error:
        return 400, {"__type": "IllegalArgumentException", "message": f"Missing or invalid: {error}"}
