"""The files of a run in the yard's bucket."""

from __future__ import annotations

import json
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainyard.client.bucket import ignore_progress
from trainyard.client.deployment import Deployment
from trainyard.client.errors import NoModel
from trainyard.client.fetching import Fetched, OnProgress, Tree
from trainyard.client.models import FoundModel, find_models
from trainyard.client.unpacking import unpack
from trainyard.command_line import command_line
from trainyard.core.jobfile.references import split_uri
from trainyard.protocol import keys
from trainyard.protocol.ledger.study import STUDY
from trainyard.protocol.trial import part_of
from trainyard.values.quantities import format_bytes

DOCUMENTS = {
    "metrics": "metrics.json",
    "summary": "summary.json",
    "plan": "plan.json",
    "timeline": "timeline.jsonl",
    "job": "job.json",
}
"""The files of a run's folder that users select by a word."""
OUTPUTS = "outputs/"
"""The prefix of the parts that are files or folders of the outputs."""
MOST_OFFERED = 5
"""The most models that an error lists."""
LOGS = re.compile(r"(attempts/\d+/)?logs/")


@dataclass(frozen=True)
class RunFiles:
    """The folder of a run, and the downloads from it."""

    yard: Deployment = field(compare=False, repr=False)
    arn: str

    @property
    def id(self) -> str:
        """Return the name of the run in the ledger, in tags, and in the bucket."""
        name = self.arn.rsplit(":", 1)[-1]
        return part_of(name)[0] if self.workflow == STUDY else name

    @property
    def workflow(self) -> str:
        """Return the workflow of the run: `train`, `study`, `bake`, `snapshot` or `dev-host`."""
        return self.arn.split(":")[-2].partition("-")[2]

    @property
    def keys(self) -> list[str]:
        """Return the keys of the files in the folder of the run, without the folder."""
        prefix = keys.run(self.id)
        return [key.removeprefix(prefix) for key in self.yard.bucket.keys(prefix)]

    def text(self, name: str) -> str:
        """Return a text file of the folder; empty if it is missing."""
        return (self.yard.bucket.read(f"{keys.run(self.id)}{name}") or b"").decode(errors="replace")

    def json(self, name: str) -> Any:
        """Return a JSON file of the folder; an empty mapping if the file is missing."""
        return json.loads(self.text(name) or "{}")

    def fetch(self, part: str, folder: Path | str, on_progress: OnProgress = ignore_progress) -> Fetched:
        """Download a part of the run's files into the folder, unless it has them with the same content.

        A part is `model`, `checkpoints`, `tensorboard`, `outputs`, `predictions`, `notebook`, `logs`, `source`,
        `everything`, a document (`metrics`, `summary`, `plan`, `timeline`, `job`), or a file or folder of the outputs
        (`outputs/weights/last.pt`, `outputs/saved/`). Files of another run are removed from the folder. Raise
        FileUnreadable.
        """
        if part.startswith(OUTPUTS):
            return self._fetch_output(part, Path(folder), on_progress)
        if part == "source":
            return self._fetch_source(Path(folder), on_progress)
        if part == "checkpoints":
            return self._fetch_checkpoint(Path(folder), on_progress)
        own, prefix, wanted = keys.run(self.id), "", re.compile("")
        match part:
            case "everything":
                pass
            case "logs":
                wanted = LOGS
            case document if document in DOCUMENTS:
                wanted = re.compile(re.escape(DOCUMENTS[document]) + "$")
            case _:
                prefix = f"{part}/"
        below = {"outputs": "", "everything": "outputs/"}.get(part)
        return self.yard.bucket.fetch(
            own + prefix,
            Path(folder),
            on_progress,
            owner=self.id,
            wanted=lambda name: bool(wanted.match(name)),
            tree=self._tree(below) if below is not None else None,
        )

    def _fetch_output(self, path: str, folder: Path, on_progress: OnProgress) -> Fetched:
        """Download one file of the outputs, or one folder, whose path ends with a slash."""
        above, _, file = f"{keys.run(self.id)}{path}".rpartition("/")
        return self.yard.bucket.fetch(
            f"{above}/", folder, on_progress, owner=self.id, wanted=lambda name: not file or name == file
        )

    @property
    def models_in_outputs(self) -> list[FoundModel]:
        """Return the models in the program's working folder."""
        prefix = keys.outputs(self.id)
        found = self.yard.bucket.keys(prefix)
        return find_models({key.removeprefix(prefix): size for key, size in found.items()})

    def _fetch_checkpoint(self, folder: Path, on_progress: OnProgress) -> Fetched:
        """Download the files of the newest checkpoint, with the names that the program gave them."""
        key = str(self.json("checkpoints/latest.json").get("key") or "").rstrip("/")
        manifest = self.yard.bucket.json(f"{key}.json") if key else None
        if not manifest:
            return Fetched()
        names: dict[str, list[str]] = {}
        for name, (*_, below) in manifest["files"].items():
            names.setdefault(below, []).append(name)
        tree = Tree()
        links = {
            name: target for name, (target, _) in manifest["links"].items() if name not in manifest["files"]
        }
        tree.add({**manifest, "links": links}, "")
        prefix = key.rpartition("/")[0] + "/"
        return self.yard.bucket.fetch(prefix, folder, on_progress, owner=self.id, names=names, tree=tree)

    def fetch_events(self, folder: Path, on_progress: OnProgress = ignore_progress) -> int:
        """Download TensorBoard's events, also those in the program's working folder, and return the number of files."""
        kept = self.yard.bucket.fetch(
            keys.outputs(self.id),
            folder / "outputs",
            on_progress,
            owner=self.id,
            wanted=lambda name: ".tfevents." in name,
        )
        return self.fetch("tensorboard", folder, on_progress).files + kept.files

    def _tree(self, below: str) -> Tree:
        """Return the links, empty folders and times of the outputs."""
        tree, lists = Tree(), keys.outputs_of(self.id)
        for host in self.yard.bucket.folders(lists):
            said = self.yard.bucket.read(f"{lists}{host}/files.json")
            with suppress(ValueError):  # a program may have replaced the list
                tree.add(json.loads(said or b"{}"), below if host == "chief-0" else f"{below}@{host}/")
        return tree

    def _fetch_source(self, folder: Path, on_progress: OnProgress) -> Fetched:
        """Download the source archive from its bucket, and unpack it."""
        uri = (self.json("job.json").get("program") or {}).get("source")
        if not uri:
            return Fetched()
        name, key = split_uri(uri)
        above, slash, file = key.rpartition("/")
        bucket = replace(self.yard.bucket, name=name)
        with tempfile.TemporaryDirectory(prefix="trainyard-source-") as made:
            archive = Path(made, file)
            if not bucket.fetch(
                above + slash, Path(made), on_progress, owner=self.id, wanted=lambda each: each == file
            ).files:
                return Fetched()
            return unpack(archive, folder, uri=uri, owner=self.id)

    def model(self, folder: Path | str, on_progress: OnProgress = ignore_progress) -> Path:
        """Download the exported model, or the only model among the outputs, into the folder. Raise NoModel without a
        model, or with several."""
        self.fetch_model(folder, on_progress)
        return Path(folder)

    def fetch_model(
        self, folder: Path | str, on_progress: OnProgress = ignore_progress
    ) -> tuple[str, Fetched]:
        """Download the model as `model` does. Return the downloaded part: `model`, or a path of the outputs."""
        if (fetched := self.fetch("model", folder, on_progress)).files:
            return "model", fetched
        found = self.models_in_outputs
        if len(found) == 1:
            part = f"{OUTPUTS}{found[0].path}"
            return part, self.fetch(part, folder, on_progress)
        if not found:
            raise NoModel(
                f"{self.id} has no model",
                "its program has written none to ${model}, and none of its outputs is named like a model (yet)",
                command_line("show", self.id),
            )
        listed = ", ".join(f"{each.path} ({format_bytes(each.size)})" for each in found[-MOST_OFFERED:])
        more = f", and {len(found) - MOST_OFFERED} more" if len(found) > MOST_OFFERED else ""
        raise NoModel(
            f"{self.id} has no model in ${{model}}",
            f"its outputs have {len(found)} files or folders that may be one: {listed}{more}",
            command_line("get", self.id, f"{OUTPUTS}{found[-1].path}"),
        )
