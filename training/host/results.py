"""What a program leaves in files: TensorBoard events, the model, metrics.json."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.host.bucket import Bucket
from training.host.places import Places


@dataclass(slots=True)
class FolderUpload:
    """One folder's way under one prefix; a file is sent again only when it changed."""

    bucket: Bucket
    folder: Path
    prefix: str
    _sent: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def send(self) -> None:
        if not self.folder.is_dir():
            return
        for path in sorted(self.folder.rglob("*")):
            if not path.is_file():
                continue
            facts = path.stat()
            print_of = (facts.st_size, facts.st_mtime_ns)
            if self._sent.get(path) != print_of:
                self.bucket.upload(path, self.prefix + path.relative_to(self.folder).as_posix())
                self._sent[path] = print_of


def send_model_and_metrics(bucket: Bucket, run: str, places: Places) -> dict[str, Any]:
    """Bring model/ and metrics.json into the bucket; what metrics.json says without its history."""
    FolderUpload(bucket, places.results / "model", f"runs/{run}/model/").send()
    metrics = places.results / "metrics.json"
    if not metrics.is_file():
        return {}
    bucket.upload(metrics, f"runs/{run}/metrics.json")
    try:
        said = json.loads(metrics.read_text())
    except ValueError:
        return {}
    return {key: value for key, value in said.items() if key != "history"} if isinstance(said, dict) else {}
