"""The sections of a job file that select the program, the data and the commit."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from trainyard.core.model.data_source import DataSource
from trainyard.core.model.hardware import named
from trainyard.core.model.job_fields import MOST_GIB, Uri
from trainyard.core.model.program_fields import (
    Arguments,
    CommandLine,
    ProgressPattern,
    ShellText,
    Variable,
    Variables,
)
from trainyard.core.model.progress import EXAMPLE
from trainyard.protocol import keys
from trainyard.protocol.cluster import SEVERAL_HOSTS
from trainyard.protocol.containers import Container
from trainyard.protocol.file_systems import Access, FileSystem, FolderOfFileSystem, folder_of
from trainyard.values.fields import Choice, Count, Flag, Text, choices, key, required
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Short

MOST_ARGS = 100
ADDRESS = r"[^\s\u0000-\u001f]{1,500}"
MOST_SECRETS = 10
"""The most secrets that one GetParameters returns and that fit into a session policy."""
MODULE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
VARIABLE = r"[A-Z_][A-Z0-9_]{0,63}"
NAMED_VARIABLE = "a name of up to 64 capital letters, digits and underscores that begins with no digit"
LAST_PART = r"[A-Za-z0-9_.-]{1,40}"
"""The last part of the name of a parameter with a secret (core/model/names.py)."""
SHIPPED = "training.programs."
PROGRAMS = (
    "digits",
    "downpour",
    "keras_text",
    "matmul",
    "mnist",
    "parameter_server_v1",
    "replicate",
    "serve",
)
"""The reference programs of the image, each a module below SHIPPED."""
OF_MODELS = ("convert", "predict_batch")
"""The modules below SHIPPED that the yard runs for versions of models."""
Scalar = str | int | float | bool


class Result(StrEnum):
    """A result that a program with exit code 0 can be required to leave."""

    MODEL = "model"
    METRICS = "metrics"
    CHECKPOINT = "checkpoint"


class Sharding(StrEnum):
    """The files of a data entry that a host gets: all of them, or its share."""

    NONE = "none"
    FILE = "file"


@dataclass(frozen=True, kw_only=True)
class Program:
    """The program of a job."""

    source: str | None = key(
        None,
        Uri(folder="programs", ends=(".tar", ".tar.gz", ".tgz")),
        "A tar archive, up to 1 GiB, unpacked and put on the Python path. Or a folder beside the job file, such as "
        "`./src`, which `trainyard submit` packs ([packed files](programs.md#packed-files)). Or a git "
        "repository, `git+https://HOST/PATH@REF`, which it clones. Or an archive in another bucket that the yard reads "
        "([below](#other-buckets)).",
    )
    module: str | None = key(
        None,
        Text(
            r"(?!.{201})" + MODULE,
            "a dotted Python module name of letters, digits and underscores, as in training.programs.digits",
        ),
        "Run as `python -m MODULE`: a module of `program.source` or, without a source, one of the reference programs "
        f"{', '.join(f'`{SHIPPED}{program}`' for program in PROGRAMS)}. A job has a module, a command or a shell.",
        usual="required without `command` and `shell`",
    )
    command: tuple[Scalar, ...] = key(
        (),
        CommandLine(most=MOST_ARGS, least=1),
        "A command that every host runs instead, in the folder of the unpacked `program.source`, as in `[torchrun, "
        "train.py]`: a command of `program.requirements` or of the image, or a file of the source (`./run.sh`). It "
        "runs without a shell: put shell lines into `program.shell` ([programs.md](programs.md#any-command)).",
        usual="`python -m MODULE`",
    )
    shell: str | None = key(
        None,
        ShellText(),
        "Lines that every host runs instead with `bash -eo pipefail`, in the folder of the unpacked "
        "`program.source`. The program ends with the first command that fails, also inside a pipe. `program.args` "
        'are `"$@"` ([programs.md](programs.md#lines-for-a-shell)).',
        usual="`python -m MODULE`",
    )
    args: Mapping[str, Scalar] | list[Scalar] = key(
        {},
        Arguments(
            name=r"[A-Za-z][A-Za-z0-9_-]{0,63}",
            named="a name of up to 64 letters, digits, hyphens and underscores that begins with a letter",
            most=MOST_ARGS,
        ),
        "Arguments of the module or command. A mapping gives `--name value` for each entry (`true`: only `--name`; "
        "`false`: no flag; a text that begins with `-`: `--name=value`). A list gives its values unchanged.",
    )
    environment: Mapping[str, str] = key(
        {},
        Variables(
            name=VARIABLE,
            named=NAMED_VARIABLE,
            most=MOST_ARGS,
            each=Variable(),
        ),
        "Environment variables of the program.",
    )
    secrets: Mapping[str, str] = key(
        {},
        Variables(
            name=VARIABLE,
            named=NAMED_VARIABLE,
            most=MOST_SECRETS,
            each=Text(
                LAST_PART, "the name of a secret, up to 40 letters, digits, dots, hyphens and underscores"
            ),
            plain=False,
        ),
        "Environment variables of the program whose values are secrets. Each value names a parameter "
        "`/YARD/secrets/NAME` of Parameter Store, a SecureString, which the hosts read when the program starts "
        "([below](#secrets)).",
    )
    requirements: str | None = key(
        None,
        Text(
            r"(?![./-])(?!.*(/\.|//))[A-Za-z0-9_./-]{1,200}",
            "a relative path inside program.source, as in requirements.txt",
        ),
        "A list of Python packages to install on every host before the program starts.",
    )
    container: Container | None = key(
        None,
        Short(Container, "image"),
        "The container image of the program: its name, or a mapping ([containers](tasks/containers.md)). "
        "Without `module`, `command` and `shell`, the program is the image's ENTRYPOINT and CMD.",
        usual="none: the program runs with the Python of the hosts",
    )
    progress: str | None = key(
        None,
        ProgressPattern(),
        "For a program that does not report its progress: a pattern for the lines that the chief prints, as in "
        f"`{EXAMPLE}` ([programs.md](programs.md#progress)).",
        usual="none: the scalars of TensorBoard, if the program writes any",
    )
    expect: tuple[Result, ...] = key(
        (),
        choices(Result),
        "Results that the program must leave; if one is missing, an exit with 0 is a failure.",
    )
    strict: bool = key(
        False,
        Flag(),
        "`true`: a program that exits with 0 has still failed if its last lines are an uncaught exception, or if its "
        "processes still run. `false`: such a run has finished, and every view shows `Finished, but ...` "
        "([programs.md](programs.md#how-a-program-ends)).",
    )

    @property
    def called(self) -> str:
        """Return the program's module or command in one line."""
        words = self.shell if self.shell is not None else " ".join(str(word) for word in self.command)
        of_image = str(self.container.reference) if self.container else ""
        first, *more = (self.module or words or of_image).strip().splitlines() or [""]
        return f"{first} ..." if more else first


class Tracker(StrEnum):
    """An experiment tracker that a run reports to, besides its own bucket."""

    MLFLOW = "mlflow"
    WANDB = "wandb"
    OTEL = "otel"

    @property
    def client(self) -> "TrackerClient":
        return TRACKER_CLIENTS[self]


@dataclass(frozen=True)
class TrackerClient:
    """The tracker's own client, which a host installs from `requirements/locks`, and the variable that it needs."""

    called: str
    variable: str
    wanted: str
    """The meaning of the variable in words."""
    failing_seconds: float = 60.0
    """How long a host waits at the end of a program for a tracker that does not answer."""
    is_of_each_host: bool = False
    """True if each host reports by itself, False if only the chief's host does."""

    @property
    def prefix(self) -> str:
        """Return the beginning of the variables of `program.environment` and `program.secrets` that the client gets."""
        return f"{self.variable.partition('_')[0]}_"


OTLP_ENDPOINT, OTLP_HEADERS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"
TRACKER_CLIENTS = {
    Tracker.MLFLOW: TrackerClient("MLflow", "MLFLOW_TRACKING_URI", "the address of the MLflow server"),
    Tracker.WANDB: TrackerClient("Weights & Biases", "WANDB_API_KEY", "an API key"),
    Tracker.OTEL: TrackerClient(
        "OpenTelemetry",
        OTLP_ENDPOINT,
        "the address of a receiver",
        failing_seconds=10.0,
        is_of_each_host=True,
    ),
}


@dataclass(frozen=True)
class Telemetry:
    """The receiver of OpenTelemetry metrics that gets the metrics of all runs, by the settings of the yard."""

    endpoint: str
    headers: str = ""
    """The name of the secret with the headers of each request; empty for none."""


class Mode(StrEnum):
    """How the files of a data entry get to the program: fetched before it starts, or read from S3 meanwhile."""

    COPY = "copy"
    STREAM = "stream"


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The objects of a data entry at admission."""

    objects: int
    """The objects with content."""
    bytes: int
    gets: int
    """GET requests that read every object once: one for each object, and one for each further 8 MiB."""
    is_cut: bool = False
    """True if there are more objects than admission lists."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """One data entry: all files under `source`, or a worker's share of them."""

    source: str = field(
        metadata=required(
            DataSource(folder="data", ends=("/",)),
            "A folder of the bucket. All files below it are on every host's disk before the program starts, at the "
            "path in `TRAINYARD_DATA_NAME`. Or a folder next to the job file, such as `./data/`, which `trainyard "
            "submit` sends. Or a folder of another bucket that the yard reads, `s3://NAME/.../` "
            "([below](#other-buckets)). Or a folder of a file system, `efs://fs-.../` or `fsx://fs-.../`, which hosts "
            "mount ([file systems](tasks/file-systems.md)).",
        )
    )
    sharding: Sharding = key(
        Sharding.NONE,
        Choice(Sharding),
        "`none`: every host has all files. `file`: each worker has its own share of the files; only with "
        f"{named(SEVERAL_HOSTS)}, and with at least as many files as workers.",
    )
    mode: Mode = key(
        Mode.COPY,
        Choice(Mode),
        "`copy`: the files are on every host's disk before the program starts. `stream`: the program reads them from "
        "S3 through a mount, and starts at once ([data](tasks/data.md)).",
    )
    cache_gib: int | None = key(
        None,
        Count(least=1, most=MOST_GIB, because="a part of each host's disk in GiB"),
        "With `mode: stream`: keep up to this much of the data on each host's disk, so that the next epoch reads it "
        "from there.",
        usual="no cache",
    )
    access: Access = key(
        Access.READ,
        Choice(Access),
        "`write`: the program may also write the files of a file system, for itself and for every other user of it. "
        "The setting `file_systems` of the yard must allow it. Data in S3 can only be read.",
    )
    listed: Listed | None = None
    """The objects that Admit found; only with `mode: stream`."""
    file_system: FileSystem | None = None
    """The file system as Admit found it; None for data in S3."""

    @property
    def folder(self) -> FolderOfFileSystem | None:
        """Return the folder of a file system that the entry names, or None for data in S3."""
        return folder_of(self.source)

    @property
    def is_streamed(self) -> bool:
        return self.mode is Mode.STREAM

    @property
    def is_mounted(self) -> bool:
        """Return True if hosts mount the files instead of copying them."""
        return self.is_streamed or self.folder is not None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The commit of the program, filled in by `trainyard submit`."""

    commit: str | None = key(
        None,
        Text(r"[0-9a-f]{40}([0-9a-f]{24})?", "the whole id of a commit"),
        "The commit of the program. `trainyard submit` writes this section if `program.source` is a folder in a git "
        "work tree, or a repository.",
    )
    repository: str | None = key(
        None,
        Text(ADDRESS, "an address without spaces"),
        "The repository, without a user's name and password.",
    )
    ref: str | None = key(None, Text(ADDRESS, "a name without spaces"), "The branch or tag.")
    dirty: bool = key(False, Flag(), "`true` if the folder had uncommitted changes.")
    diff: str | None = key(
        None,
        Text(keys.PROGRAMS + r"[!-~]{1,200}", f"a key below {keys.PROGRAMS}"),
        "The key of these changes in the bucket, as far as git tracks their files: up to 1 MiB of a diff.",
    )

    @property
    def described(self) -> str:
        """Describe the commit in one line: abc1234 (main) of https://..., with uncommitted changes."""
        ref = f" ({self.ref})" if self.ref else ""
        of = f" of {self.repository}" if self.repository else ""
        changes = ", with uncommitted changes" if self.dirty else ""
        return f"{(self.commit or '')[:12]}{ref}{of}{changes}"
