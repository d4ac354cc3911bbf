"""The client of a deployed yard, in an account or on a local cloud alike: find it, submit jobs, follow their runs.

    from trainyard import Yard

    run = Yard.find().submit("job.yaml", set={"args.lr": 0.5})
    run.result()
    run.model("model")

It prints nothing, and raises errors of one tree (trainyard.client.errors).
"""

from trainyard.client.errors import YardError
from trainyard.client.run import Run
from trainyard.client.runs.execution import Execution, State
from trainyard.client.runs.listing import ListedRun, Waiting
from trainyard.client.runs.logs import LogLine
from trainyard.client.runs.plan import JobPlan, LeftOut, Pool
from trainyard.client.runs.records import Event, Host, Progress, RunStatus
from trainyard.client.session import Session
from trainyard.client.yard import Yard

__all__ = [
    "Event",
    "Execution",
    "Host",
    "JobPlan",
    "LeftOut",
    "ListedRun",
    "LogLine",
    "Pool",
    "Progress",
    "Run",
    "RunStatus",
    "Session",
    "State",
    "Waiting",
    "Yard",
    "YardError",
]
