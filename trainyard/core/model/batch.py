"""The section `predict` of a job file: predictions of a version of a model for many rows, and the program that makes
them."""

from dataclasses import field
from enum import StrEnum

from trainyard.core.model.job_fields import NAME, Uri
from trainyard.core.model.program import SHIPPED
from trainyard.values.fields import Choice, Text, key, required
from trainyard.values.lazy import dataclass

MODULE = f"{SHIPPED}predict_batch"
PROGRAM = {"module": MODULE}
"""The section `program` of the job of a batch."""
ROWS, MODEL = "rows", "model"
"""The data entries of the program: the files with rows, and the version of the model."""


class Format(StrEnum):
    """The format of the files with rows."""

    JSONL = "jsonl"
    """One row a line, as JSON."""
    TFRECORD = "tfrecord"
    """One tf.Example a record."""
    NPZ = "npz"
    """NumPy's arrays: the first dimension counts the rows."""


@dataclass(frozen=True, kw_only=True)
class Predict:
    """Predictions of a version of a model for the rows of all files of a folder."""

    model: str = field(
        metadata=required(
            Text(
                rf"{NAME}(@({NAME}|[1-9][0-9]{{0,5}}))?",
                "a model, or a model with @ and an alias, a label or a number, as in digits@champion",
            ),
            "The model, with the alias, label or number of its version. Without one, the alias `default` counts. The "
            "version is chosen once, when the run is admitted.",
        )
    )
    source: str = field(
        metadata=required(
            Uri(folder="data", ends=("/",)),
            "A folder of the bucket with the rows, as for `data`. The files are distributed over the workers.",
        )
    )
    format: Format = key(
        Format.JSONL,
        Choice(Format),
        "`jsonl`: one row a line, as a request has it in `instances`. `tfrecord`: one `tf.Example` a record, with "
        "features named as the inputs. `npz`: arrays of NumPy, named as the inputs.",
    )
    signature: str | None = key(
        None,
        Text(r"[A-Za-z_][A-Za-z0-9_./-]{0,99}", "the name of a signature, as in serving_default"),
        "The signature that answers.",
        usual="`serving_default`, or the only one",
    )

    @property
    def name(self) -> str:
        return self.model.partition("@")[0]

    @property
    def version(self) -> str:
        """Return the alias, label or number; empty for the default version."""
        return self.model.partition("@")[2]
