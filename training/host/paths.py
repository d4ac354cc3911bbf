"""Paths on a host's disk."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths below `root`, which is `/` on a host and a temporary folder in tests."""

    root: Path = Path("/")

    @property
    def startup(self) -> Path:
        """The first folder on every program's path, with the code that Python runs before the program."""
        return self.agent / "training/host/program/startup"

    @property
    def agent(self) -> Path:
        """The package `training` and lists of requirements. Only the agent's commands and the shipped programs have
        this folder on their path."""
        return self.root / "opt/trainyard/agent"

    @property
    def python(self) -> Path:
        return self.root / "opt/trainyard/venv/bin/python"

    @property
    def jupyter(self) -> Path:
        """JupyterLab's own environment; missing in an image without JupyterLab."""
        return self.root / "opt/trainyard/jupyter"

    @property
    def jupyter_run(self) -> Path:
        """Token and sockets of a running JupyterLab. A reboot removes them."""
        return self.root / "run/trainyard-jupyter"

    @property
    def jupyter_token(self) -> Path:
        return self.jupyter_run / "token"

    @property
    def jupyter_log(self) -> Path:
        """The output of JupyterLab."""
        return self.log / "jupyter.log"

    @property
    def command(self) -> Path:
        """The command `trainyard` for users on the host."""
        return self.root / "usr/local/bin/trainyard"

    @property
    def recipe(self) -> Path:
        """The hash of the recipe, software, and base image of this host's image."""
        return self.root / "opt/trainyard/recipe"

    @property
    def cloudwatch_agent(self) -> Path:
        """The command that configures the CloudWatch agent and prints its status."""
        return self.root / "opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"

    @property
    def cloudwatch(self) -> Path:
        """The CloudWatch agent's configuration."""
        return self.root / "opt/trainyard/cloudwatch-agent.json"

    @property
    def image_settings(self) -> Path:
        """Settings that the base image declares."""
        return self.root / "etc/trainyard/image.env"

    @property
    def profile(self) -> Path:
        """The script that every login shell of the host reads."""
        return self.root / "etc/profile.d/trainyard.sh"

    @property
    def apt(self) -> Path:
        """The folder with apt-get's package sources."""
        return self.root / "etc/apt"

    @property
    def driver(self) -> Path:
        """The version of the GPU's kernel modules; missing if none are loaded."""
        return self.root / "proc/driver/nvidia/version"

    @property
    def owner(self) -> Path:
        """The instance that this disk belongs to."""
        return self.root / "etc/trainyard/host.json"

    @property
    def machine_id(self) -> Path:
        return self.root / "etc/machine-id"

    @property
    def work(self) -> Path:
        """All files of the run. Generalizing a builder removes them."""
        return self.root / "var/lib/trainyard"

    @property
    def state(self) -> Path:
        return self.work / "state.json"

    @property
    def generalized(self) -> Path:
        """The id of the generalized instance. The agent stays idle on that instance, but not on a clone of it."""
        return self.work / "generalized"

    @property
    def job(self) -> Path:
        return self.work / "job.json"

    @property
    def home(self) -> Path:
        """The home of the program's account (account.py), with all its files."""
        return self.work / "home"

    @property
    def program(self) -> Path:
        return self.home / "program"

    @property
    def source_archive(self) -> Path:
        """The program's source archive, until it is unpacked."""
        return self.home / "program.archive"

    @property
    def venv(self) -> Path:
        """The run's own packages, layered on the packages of the image."""
        return self.home / "venv"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def mounts(self) -> Path:
        """Mounted file systems with data, their logs and caches, by the names of data entries. Root owns the
        folder."""
        return self.work / "mounts"

    @property
    def root_credentials(self) -> Path:
        """The AWS credentials of root, which mount.efs and its watchdog read."""
        return self.root / "root/.aws/credentials"

    def mount_folder(self, name: str) -> Path:
        return self.mounts / name

    def mount(self, name: str) -> Path:
        """The mount point of a data entry."""
        return self.mount_folder(name) / "files"

    @property
    def journals(self) -> Path:
        """Journals that map the files of data entries to objects of the bucket."""
        return self.home / "journals"

    @property
    def spare(self) -> Path:
        """Packages that an earlier run of this host installed, by the hash of their list (pool/retained.py)."""
        return self.home / "spare"

    @property
    def notes(self) -> Path:
        """Root's notes on the files of data and packages, which show whether a program has changed them."""
        return self.work / "noted.json"

    @property
    def sources(self) -> Path:
        """The agent's list of files in the program's folder before the run's first program (outputs/restore.py)."""
        return self.work / "sources.json"

    @property
    def retained(self) -> Path:
        """Files that one run leaves to the next. Only root can read them."""
        return self.root / "var/lib/trainyard-kept"

    @property
    def containers(self) -> Path:
        """Unpacked container images, by their digests, and what the run's program changes in its own. No container
        sees this folder."""
        return self.work / "containers"

    @property
    def image_notes(self) -> Path:
        """Root's notes on the files of the container image, which show whether something has changed them."""
        return self.work / "noted-image.json"

    @property
    def kept_images(self) -> Path:
        """Container images that one run leaves to the next. Only root can read them."""
        return self.root / "var/lib/trainyard-images"

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
        """On a dev host: when patrol will find the host idle. Every account may read it, to warn users."""
        return self.run / "idle.json"

    @property
    def terminals(self) -> Path:
        """Pseudo-terminals, by their numbers."""
        return self.root / "dev/pts"

    @property
    def reserve(self) -> Path:
        """A file that keeps room for the agent in case the disk is full."""
        return self.work / "reserve"

    @property
    def results(self) -> Path:
        """Results that the chief uploads."""
        return self.home / "results"

    @property
    def model(self) -> Path:
        return self.results / "model"

    @property
    def tensorboard(self) -> Path:
        return self.results / "tensorboard"

    @property
    def notebook(self) -> Path:
        """The program's notebook with the output of the cells that were executed."""
        return self.results / "notebook"

    @property
    def metrics(self) -> Path:
        return self.results / "metrics.json"

    @property
    def log(self) -> Path:
        return self.root / "var/log/trainyard"

    @property
    def ssm_errors(self) -> Path:
        """The error log of the Systems Manager agent."""
        return self.root / "var/log/amazon/ssm/errors.log"

    @property
    def run(self) -> Path:
        return self.root / "run/trainyard"

    @property
    def started_again(self) -> Path:
        """The new lease of a host that was started after its lease had ended. A reboot removes it."""
        return self.run / "started-again"

    @property
    def credentials(self) -> Path:
        """The run's credentials, in the format of a credential process."""
        return self.run / "credentials.json"

    @property
    def aws_config(self) -> Path:
        """The AWS config through which programs find the run's credentials."""
        return self.run / "aws-config"

    @property
    def aws_config_without_cat(self) -> Path:
        """The AWS config for programs in an image without `cat`."""
        return self.run / "aws-config-without-cat"

    @property
    def orders(self) -> Path:
        return self.run / "orders"

    def attempt(self, number: int) -> Path:
        """The agent's files of an attempt: the program's process and its exit code."""
        return self.work / "attempts" / f"{number:04d}"

    def tracking(self, number: int) -> Path:
        """The files of the processes that report the attempt to trackers."""
        return self.attempt(number) / "tracking"

    def collectives(self, number: int) -> Path:
        """The output and the exit code of the check of the gang's collectives."""
        return self.attempt(number) / "collectives"

    def cluster(self, number: int) -> Path:
        """The attempt's cluster.json."""
        return self.work / f"cluster-{number:04d}.json"

    def process(self, number: int) -> Path:
        """The process of the attempt's program."""
        return self.attempt(number) / "process.json"

    def exit_code(self, number: int) -> Path:
        return self.attempt(number) / "exit"

    def exits(self, number: int) -> Path:
        """The ends of the program's Python processes, written by startup/sitecustomize.py."""
        return self.progress(number).with_name("exits.jsonl")

    def waits(self, number: int) -> Path:
        """The waits of the program's processes for batches (startup/sitecustomize.py)."""
        return self.progress(number).with_name("waits.jsonl")

    def progress(self, number: int) -> Path:
        """The program's progress as JSON lines. The folder also has files that coordinate its processes."""
        return self.home / "attempts" / f"{number:04d}" / "progress.jsonl"

    def program_log(self, number: int, role: str, index: int) -> Path:
        """The program's raw output."""
        return self.log / f"attempt-{number:04d}-{role}-{index}.log"

    def stamped_log(self, number: int, role: str, index: int) -> Path:
        """The program's output with time and host in each line, as it is uploaded."""
        return self.log / f"attempt-{number:04d}-{role}-{index}.stamped.log"
