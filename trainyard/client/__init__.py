"""The client of a deployed yard in an account or on a local cloud: find the yard, submit jobs, follow their runs.

    from trainyard import Yard

    run = Yard.find().submit("job.yaml", set={"args.lr": 0.5})
    run.result()
    run.model("model")

It prints nothing, and raises the errors of one tree (trainyard.client.errors).
"""

from trainyard.client.errors import YardError
from trainyard.client.run import Run
from trainyard.client.runs.execution import Execution, State
from trainyard.client.runs.listing import ListedRun
from trainyard.client.runs.logs import LogLine
from trainyard.client.runs.plan import JobPlan, LeftOut, Pool
from trainyard.client.runs.progress import Progress
from trainyard.client.runs.records import Event, Host
from trainyard.client.runs.status import RunStatus
from trainyard.client.session import Session
from trainyard.client.study import Study, StudyTrial
from trainyard.client.yard import Yard
from trainyard.protocol.ledger.run import Waiting

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
    "Study",
    "StudyTrial",
    "Waiting",
    "Yard",
    "YardError",
]
