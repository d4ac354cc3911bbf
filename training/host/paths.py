"""Where things are on a host's disk."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Paths:
    """`root` is `/` on a host; a test gives a folder."""

    root: Path = Path("/")

    @property
    def startup(self) -> Path:
        """On every program's path: what Python runs before it."""
        return self.agent / "training/host/program/startup"

    @property
    def agent(self) -> Path:
        """The package `training` and the lists of what hosts need: on the path of the agent's commands and of the
        programs that are shipped, of nobody else."""
        return self.root / "opt/trainyard/agent"

    @property
    def python(self) -> Path:
        return self.root / "opt/trainyard/venv/bin/python"

    @property
    def jupyter(self) -> Path:
        """JupyterLab's own environment; absent from an image that was baked without."""
        return self.root / "opt/trainyard/jupyter"

    @property
    def jupyter_run(self) -> Path:
        """What a running JupyterLab has that is nobody else's: its token, its sockets. Gone with the power."""
        return self.root / "run/trainyard-jupyter"

    @property
    def jupyter_token(self) -> Path:
        return self.jupyter_run / "token"

    @property
    def jupyter_log(self) -> Path:
        """What it prints."""
        return self.log / "jupyter.log"

    @property
    def command(self) -> Path:
        """What people on the host say `trainyard` to."""
        return self.root / "usr/local/bin/trainyard"

    @property
    def recipe(self) -> Path:
        """Holds the hash of what the image was baked from."""
        return self.root / "opt/trainyard/recipe"

    @property
    def cloudwatch_agent(self) -> Path:
        """The command that gives the CloudWatch agent its configuration and says how it is."""
        return self.root / "opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"

    @property
    def cloudwatch(self) -> Path:
        """The CloudWatch agent's configuration."""
        return self.root / "opt/trainyard/cloudwatch-agent.json"

    @property
    def image_settings(self) -> Path:
        """What the base image says about itself."""
        return self.root / "etc/trainyard/image.env"

    @property
    def profile(self) -> Path:
        """What every login shell of the host reads."""
        return self.root / "etc/profile.d/trainyard.sh"

    @property
    def apt(self) -> Path:
        """Where apt-get finds its package sources."""
        return self.root / "etc/apt"

    @property
    def driver(self) -> Path:
        """What the GPU's kernel modules say of themselves; absent without them."""
        return self.root / "proc/driver/nvidia/version"

    @property
    def owner(self) -> Path:
        """Which instance this disk belongs to."""
        return self.root / "etc/trainyard/host.json"

    @property
    def machine_id(self) -> Path:
        return self.root / "etc/machine-id"

    @property
    def work(self) -> Path:
        """All that belongs to the run; generalizing a builder removes it."""
        return self.root / "var/lib/trainyard"

    @property
    def state(self) -> Path:
        return self.work / "state.json"

    @property
    def generalized(self) -> Path:
        """Holds the id of the instance that was generalized: that instance stays quiet, a clone of it does not."""
        return self.work / "generalized"

    @property
    def job(self) -> Path:
        return self.work / "job.json"

    @property
    def home(self) -> Path:
        """All that is the program's own, its account's home (account.py); what follows is in there."""
        return self.work / "home"

    @property
    def program(self) -> Path:
        return self.home / "program"

    @property
    def archive(self) -> Path:
        """The program as it was fetched, until it is unpacked."""
        return self.home / "program.archive"

    @property
    def venv(self) -> Path:
        """The run's own packages, layered on those of the image."""
        return self.home / "venv"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def journals(self) -> Path:
        """Which objects the files of the data entries are."""
        return self.home / "journals"

    @property
    def spare(self) -> Path:
        """Packages that an earlier run of this host has installed, by what their list is known by (pool/kept.py)."""
        return self.home / "spare"

    @property
    def noted(self) -> Path:
        """What root has noted of data and packages, to tell whether a program has changed them."""
        return self.work / "noted.json"

    @property
    def sources(self) -> Path:
        """The agent's list of what lay in the program's folder before the run's first program (outputs/restore.py)."""
        return self.work / "sources.json"

    @property
    def kept(self) -> Path:
        """What one run leaves to the next: root's alone."""
        return self.root / "var/lib/trainyard-kept"

    @property
    def checkpoints(self) -> Path:
        return self.home / "checkpoints"

    @property
    def restores(self) -> Path:
        """Whole and verified copies of checkpoints that an attempt may restore."""
        return self.home / "restores"

    @property
    def staging(self) -> Path:
        """A folder checkpoint on its way to the bucket: links to the program's files."""
        return self.home / "staging"

    @property
    def idle(self) -> Path:
        """Of a dev host: when patrol would take it for idle, for whoever is to be warned; everybody may read it."""
        return self.run / "idle.json"

    @property
    def terminals(self) -> Path:
        """Pseudo-terminals, by their numbers."""
        return self.root / "dev/pts"

    @property
    def reserve(self) -> Path:
        """Room that the agent keeps for itself, for when the disk is full."""
        return self.work / "reserve"

    @property
    def results(self) -> Path:
        """What the chief leaves in the bucket."""
        return self.home / "results"

    @property
    def model(self) -> Path:
        return self.results / "model"

    @property
    def tensorboard(self) -> Path:
        return self.results / "tensorboard"

    @property
    def notebook(self) -> Path:
        """The notebook that is the program, as far as it is executed."""
        return self.results / "notebook"

    @property
    def metrics(self) -> Path:
        return self.results / "metrics.json"

    @property
    def log(self) -> Path:
        return self.root / "var/log/trainyard"

    @property
    def ssm_errors(self) -> Path:
        """What the Systems Manager agent of the host complains of."""
        return self.root / "var/log/amazon/ssm/errors.log"

    @property
    def run(self) -> Path:
        return self.root / "run/trainyard"

    @property
    def started_again(self) -> Path:
        """Until when a host may run that was started after its lease had ended; gone with the power."""
        return self.run / "started-again"

    @property
    def credentials(self) -> Path:
        """Those of the run, as a credential process prints them."""
        return self.run / "credentials.json"

    @property
    def aws_config(self) -> Path:
        """The AWS config by which programs find them."""
        return self.run / "aws-config"

    @property
    def orders(self) -> Path:
        return self.run / "orders"

    def attempt(self, number: int) -> Path:
        """What the agent keeps of one attempt: the program's process and its exit code."""
        return self.work / "attempts" / f"{number:04d}"

    def cluster(self, number: int) -> Path:
        """cluster.json of the attempt."""
        return self.work / f"cluster-{number:04d}.json"

    def process(self, number: int) -> Path:
        """The program that was started for the attempt."""
        return self.attempt(number) / "process.json"

    def exit_code(self, number: int) -> Path:
        return self.attempt(number) / "exit"

    def exits(self, number: int) -> Path:
        """How the program's Python processes ended: startup/sitecustomize.py appends to it."""
        return self.progress(number).with_name("exits.jsonl")

    def progress(self, number: int) -> Path:
        """JSON lines in which the program says how far it is. Beside them its processes write down what they tell each
        other."""
        return self.home / "attempts" / f"{number:04d}" / "progress.jsonl"

    def program_log(self, number: int, role: str, index: int) -> Path:
        """What the program prints, as it prints it."""
        return self.log / f"attempt-{number:04d}-{role}-{index}.log"

    def stamped_log(self, number: int, role: str, index: int) -> Path:
        """The same line by line, with time and host: what the bucket gets."""
        return self.log / f"attempt-{number:04d}-{role}-{index}.stamped.log"
