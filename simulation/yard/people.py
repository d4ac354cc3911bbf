"""The actions of users of a yard: they upload, start, stop and delete, as the owner of the account."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simulation.aws.endpoint.api import Answer, Caller
from simulation.aws.stepfunctions import Execution, Status
from simulation.faults import PERSON
from trainyard.protocol import sources
from trainyard.protocol.requests import Request, Stop
from trainyard.values import serialization

if TYPE_CHECKING:
    from simulation.yard import Yard

ROOT = Caller("somebody", "root")


class People:
    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.stop_requests: set[str] = set()
        """Runs that a user has asked to stop, even in vain."""
        self._uploaded: tuple[str, bytes] | None = None

    def upload(self, key: str, body: bytes) -> None:
        self._uploaded = (key, body)
        self.call("s3", "put_object", Bucket=self.yard.bucket, Key=key, Body=body)

    def upload_again(self) -> None:
        """Upload the last uploaded file again, if there is one."""
        if self._uploaded:
            self.upload(*self._uploaded)

    def start(self, workflow: str, name: str, given: Mapping[str, Any]) -> str:
        machine = self.yard.template.machine(workflow)
        started = self.call(
            "stepfunctions",
            "start_execution",
            stateMachineArn=machine.arn,
            name=name,
            input=json.dumps(given),
        )
        return str(started["executionArn"])

    def delete_rows(self, run: str) -> None:
        table = self.yard.template.table.name
        for pk in (f"run#{run}", f"timeline#{run}"):
            for row in list(self.yard.dynamodb.rows(table, pk)):
                self.yard.dynamodb.delete_by_hand(table, pk, row["sk"])

    def delete_all_rows(self) -> None:
        for execution in self.yard.runs():
            self.delete_rows(execution.name)

    def stop(self, execution: Execution) -> None:
        """Stop an execution, unless it has ended on its own and AWS would refuse."""
        if execution.status in (Status.RUNNING, Status.ABORTED):
            self.call("stepfunctions", "stop_execution", executionArn=execution.arn)

    def request_stop(self, run: str) -> None:
        """Ask a run to save and stop."""
        self.stop_requests.add(run)
        self.send(Stop(run=run))

    def send(self, request: Request, by: str = PERSON) -> None:
        """Send a request on the yard's bus, as this user."""
        entry = {
            "EventBusName": self.yard.template.bus.name,
            "Source": sources.user_source(by),
            "DetailType": request.detail_type,
            "Detail": json.dumps(serialization.to_json(request)),
        }
        self.call("events", "put_events", Entries=[entry])

    def call(self, service: str, operation: str, **request: Any) -> Answer:
        """Send a request as the owner of the account."""
        return self.yard.gateway.answer(ROOT, service, operation, request)

    def launch_by_hand(self) -> None:
        """Launch a host outside of any run, from the yard's template."""
        template = next(
            each for each in self.yard.template.launch_templates.values() if "UserData" not in each.data
        )
        subnet = next(iter(self.yard.template.subnets))
        overrides = [{"InstanceType": "g6.xlarge", "SubnetId": subnet, "ImageId": self.yard.image}]
        self.call(
            "ec2",
            "create_fleet",
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": template.id, "Version": "1"},
                    "Overrides": overrides,
                }
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
            OnDemandOptions={
                "SingleInstanceType": True,
                "SingleAvailabilityZone": True,
                "MinTargetCapacity": 1,
            },
        )
