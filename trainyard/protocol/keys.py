"""Every key of the yard's bucket, by a function. `ANY` in place of a run or an attempt makes the pattern of a policy.

Users write below their own part of JOBS, PROGRAMS and DATA, operators also below IMAGES and everywhere below DATA;
functions and hosts write below RUNS, functions below MODELS.
"""

JOBS, IMAGES, PROGRAMS, DATA, CREDENTIALS, RUNS, MODELS = (
    "jobs/",
    "images/",
    "programs/",
    "data/",
    "credentials/",
    "runs/",
    "models/",
)
ANY = "*"
SENT = (JOBS, PROGRAMS, DATA)
"""The folders that hold what users submit."""


def owned(folder: str, user: str) -> str:
    """The part of `folder` that only this user may write."""
    return f"{folder}by/{user}/"


def credentials(user: str) -> str:
    """Credentials of a host. `user` is the host's aws:userid."""
    return f"{CREDENTIALS}{user}.json"


# --- a run
def run(run: str) -> str:
    """The folder of a run."""
    return f"{RUNS}{run}/"


def job(run: str) -> str:
    """The job as it was admitted."""
    return f"{RUNS}{run}/job.json"


def plan(run: str) -> str:
    """The plan: capacity pools in their order, with reasons."""
    return f"{RUNS}{run}/plan.json"


def order(run: str) -> str:
    """The newest order to the hosts of a run."""
    return f"{RUNS}{run}/order.json"


def summary(run: str) -> str:
    """How the run ended, and its cost."""
    return f"{RUNS}{run}/summary.json"


def timeline(run: str) -> str:
    """The events of a run, a line each."""
    return f"{RUNS}{run}/timeline.jsonl"


def metrics(run: str) -> str:
    """The latest values of the program's metrics, and samples of their curves."""
    return f"{RUNS}{run}/metrics.json"


def all_metrics(run: str) -> str:
    """The folder of all points of the program's metrics."""
    return f"{RUNS}{run}/metrics/"


def checkpoints(run: str) -> str:
    """The folder of checkpoints."""
    return f"{RUNS}{run}/checkpoints/"


def latest_checkpoint(run: str) -> str:
    """The file that names the newest whole checkpoint."""
    return f"{RUNS}{run}/checkpoints/latest.json"


def outputs(run: str) -> str:
    """The folder of the outputs: files of the chief, and a folder @ROLE-INDEX for each other host."""
    return f"{RUNS}{run}/outputs/"


def outputs_of(run: str) -> str:
    """The folder of the hosts' lists of outputs: ROLE-INDEX/files.json and ROLE-INDEX/report.json."""
    return f"{RUNS}{run}/outputs-of/"


def tensorboard(run: str) -> str:
    """The folder of TensorBoard's events."""
    return f"{RUNS}{run}/tensorboard/"


def notebook(run: str) -> str:
    """The folder of the executed notebook."""
    return f"{RUNS}{run}/notebook/"


def predictions(run: str) -> str:
    """The folder of a batch: the predictions of each file, and `errors.jsonl`."""
    return f"{RUNS}{run}/predictions/"


def predictions_of(run: str) -> str:
    """The records of the workers of a batch: the files that each has answered."""
    return f"{RUNS}{run}/predictions-of/"


def model(run: str) -> str:
    """The folder of the exported model."""
    return f"{RUNS}{run}/model/"


# --- a version of a model
def version(model: str, number: int | str) -> str:
    """The files of a version, in the folders that TensorFlow Serving reads. They never change."""
    return f"{MODELS}{model}/{number}/"


# --- a study
def trials(run: str) -> str:
    """The trials of a study with their values and results."""
    return f"{RUNS}{run}/trials.json"


def warm(run: str) -> str:
    """The trials of earlier studies that inform the sampler of a study."""
    return f"{RUNS}{run}/warm.json"


# --- an attempt
def attempts(run: str) -> str:
    """The folder of a run's attempts."""
    return f"{RUNS}{run}/attempts/"


def cluster(run: str, attempt: int | str) -> str:
    """The cluster of an attempt: hosts, roles, and the job as hosts need it."""
    return f"{attempts(run)}{attempt}/cluster.json"


def copies_of_signals(run: str, attempt: int | str) -> str:
    """The folder of the signals that hosts store when the event bus does not answer."""
    return f"{attempts(run)}{attempt}/signals/"


def final_reports(run: str, attempt: int | str) -> str:
    """The folder of the final reports of hosts."""
    return f"{attempts(run)}{attempt}/final-reports/"


def drain_confirmations(run: str, attempt: int | str) -> str:
    """The folder of the hosts' confirmations of the order to stop."""
    return f"{attempts(run)}{attempt}/drain-confirmations/"


def working(run: str, attempt: int | str) -> str:
    """The folder of the hosts' proofs of work."""
    return f"{attempts(run)}{attempt}/working/"


def logs(run: str, attempt: int | str) -> str:
    """The folder of logs, with a folder ROLE-INDEX for each host."""
    return f"{attempts(run)}{attempt}/logs/"


def use(run: str, attempt: int | str) -> str:
    """The folder of the use of hosts, with a file ROLE-INDEX.json for each host (host_use.py)."""
    return f"{attempts(run)}{attempt}/use/"


# --- a bake
def recipe(run: str) -> str:
    """The recipe as it was admitted."""
    return f"{RUNS}{run}/recipe.json"


def tests(run: str) -> str:
    """The results of the tests of a bake."""
    return f"{RUNS}{run}/tests.json"


def sbom(run: str) -> str:
    """The bill of materials of an image."""
    return f"{RUNS}{run}/sbom.json"


def bake_logs(run: str) -> str:
    """The folder of the log of a bake, with the folder of its builder."""
    return f"{RUNS}{run}/logs/"
