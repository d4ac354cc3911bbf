"""The models of a yard: their versions and aliases, and requests to change them."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard.client import fetch_record, people
from trainyard.client.errors import (
    Denied,
    FileUnreadable,
    ModelNotChanged,
    ModelNotFound,
)
from trainyard.client.identity import caller_name
from trainyard.client.predictions import Prediction
from trainyard.client.run import Run
from trainyard.command_line import command_line
from trainyard.core.model import model_names, saved_model
from trainyard.core.model.errors import ModelRefused
from trainyard.core.model.prediction_metrics import MOST_VERSIONS, Figures, Key, figures_of, request_of
from trainyard.protocol import keys, sources
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.models import DEFAULT, MODELS, ListedModel, ModelRows, VersionRow, partition
from trainyard.protocol.requests import Act, ModelRequest, name_request
from trainyard.protocol.serving import ServeHow

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment
    from trainyard.client.serving import ServedHost

LOOK_SECONDS = 0.3


@dataclass(frozen=True)
class Model:
    """A model by its name, which need not exist yet. Each property asks AWS again."""

    yard: Deployment
    name: str

    @property
    def rows(self) -> ModelRows:
        """Return the model with its versions and moves. Raise ModelNotFound."""
        found = ModelRows.of(self.yard.partition(partition(self.name)))
        if found is None:
            names = ", ".join(each.name for each in list_models(self.yard)) or "none"
            raise ModelNotFound(
                f"the yard has no model {self.name}",
                f"its models: {names}",
                command_line("models", "create", self.name),
            )
        return found

    def find_version(self, version: str | int | None = None) -> VersionRow:
        """Return a version by its number or label, or the version that `default` names. Raise ModelNotFound."""
        rows = self.rows
        word = str(rows.row.aliases.get(DEFAULT, "")) if version is None else str(version)
        if found := rows.find(word):
            return found
        shown = ", ".join(each.shown for each in rows.versions) or "none"
        raise ModelNotFound(
            f"{self.name} has no version {word}" if word else f"{self.name} has no default version",
            f"its versions: {shown}",
            command_line("versions", "set-default", "VERSION", "--model", self.name),
        )

    def predict(
        self,
        rows: Any,
        *,
        version: str | int | None = None,
        signature: str | None = None,
        key: str | None = None,
    ) -> Prediction:
        """Return the predictions for a list of rows, or for a mapping with `instances` or `inputs`. The `key`, such as
        the name of a customer, decides between the default version and a canary. Raise NotPredicted."""
        document = dict(rows) if isinstance(rows, Mapping) else {"instances": rows}
        if signature:
            document["signature_name"] = signature
        from trainyard.client import serving  # it needs asyncio and the sessions, which other requests do not

        return serving.predict(self, document, None if version is None else str(version), key=key)

    def serve(self, *, version: str | int | None = None, how: ServeHow | None = None) -> ServedHost:
        """Start a host for a version, by default for the one that `default` names, and wait until it answers. `how` is
        None for a host as at its last start. Raise ModelNotChanged or NotServed."""
        from trainyard.client import serving

        return serving.start(self, None if version is None else str(version), how)

    def request_host(self, version: str | None, how: ServeHow | None) -> dict[str, Any]:
        """Request a host for a version, and return the run that serves it. Raise ModelNotChanged."""
        return self._request(Act.SERVE, version=version or "", serve=how)

    def create(self, *, approval: int = 0) -> dict[str, Any]:
        """Create the model. With `approval=1`, another user must approve each move of its aliases. Raise
        ModelNotChanged if the name is malformed or taken."""
        return self._request(Act.CREATE, approval=approval)

    def create_version(self, label: str, origin: Path | str, *, alias: str = "") -> dict[str, Any]:
        """Make a version of a run's model, of a folder of the bucket (`s3://...`), or of a local folder, and wait until
        it is ready. Raise ModelNotChanged with the reason if it is refused."""
        with _explain_refusals(self.name):
            model_names.check("model", self.name)
            model_names.check("label", label)
        if isinstance(origin, Path) or origin.startswith((".", "/", "~")):
            origin = self._upload(Path(origin).expanduser())
        return self._request(Act.VERSION, version=label, origin=origin, alias=alias)

    def set_default(self, version: str | int, *, alias: str = DEFAULT) -> dict[str, Any]:
        """Let the alias name the version, a label or a number. Return the old and the new version."""
        return self._request(Act.MOVE, version=str(version), alias=alias)

    def rollback(self, *, alias: str = DEFAULT) -> dict[str, Any]:
        """Reverse the last move of the alias. Return the old and the new version."""
        return self._request(Act.ROLLBACK, alias=alias)

    def canary(
        self, version: str | int, *, percent: int = 5, minutes: int = 60, shadow: bool = False
    ) -> dict[str, Any]:
        """Let the version answer a share of the requests to the default version. Patrol rolls it back if it fails more
        requests or takes twice as long, and makes it the default at the end. The answers of a shadow are only
        counted."""
        return self._request(
            Act.CANARY, version=str(version), percent=percent, minutes=minutes, shadow=shadow
        )

    def end_canary(self, *, shadow: bool = False) -> dict[str, Any]:
        """End the canary or the shadow. The default version stays."""
        return self._request(Act.END_CANARY, shadow=shadow)

    def approve(self, *, alias: str = DEFAULT) -> dict[str, Any]:
        """Approve the move of the alias that another user has requested."""
        return self._request(Act.APPROVE, alias=alias)

    def retire(self, version: str | int) -> dict[str, Any]:
        """Retire a version that no alias names. Its files stay."""
        return self._request(Act.RETIRE, version=str(version))

    def _request(self, act: Act, **given: Any) -> dict[str, Any]:
        """Send the request, wait for its execution and return its answer. Raise ModelNotChanged if it is refused."""
        with _explain_refusals(self.name):
            model_names.check("model", self.name)
        name = name_request(self.name, datetime.now(UTC), secrets.token_hex(3))
        request = ModelRequest(request=name, act=act, model=self.name, **given)
        self._send(request)
        run = self._run(name).wait_for_start(function="signal")
        execution = run.wait(every=LOOK_SECONDS).execution
        if execution.succeeded:
            return dict(json.loads(execution.output))
        raise _refused(self.name, execution.cause or execution.error_text or execution.status, act)

    def _run(self, name: str) -> Run:
        machine = self.yard.workflows["version"]
        return Run(self.yard, f"{machine.replace(':stateMachine:', ':execution:')}:{name}")

    def _send(self, request: ModelRequest) -> None:
        """Send the request in the caller's name. On the model of another user, only operators may act."""
        caller = caller_name(self.yard.session)
        everyone = (Act.CREATE, Act.VERSION, Act.APPROVE, Act.SERVE)
        if request.act in everyone or (owner := self.rows.row.owner) == caller:
            people.send_request(self.yard, request)
            return
        try:
            people.send_request(self.yard, request, sources.operator_source(caller))
        except Denied as denied:
            raise Denied(
                f"{self.name} belongs to {owner}, and you are {caller}",
                "only its owner and operators move its aliases and retire its versions; nothing was changed",
                f"ask {owner}, or an operator",
            ) from denied

    def _upload(self, folder: Path) -> str:
        """Upload a SavedModel to the caller's folder, and return its URI. The name has the hash of the content."""
        if folder.is_file():
            with _explain_refusals(self.name):
                raise ModelRefused(saved_model.describe_others({folder.name: 0}))
        if not folder.is_dir():
            raise FileUnreadable(
                f"{folder} is not a folder", "nothing was sent", "name the folder of a SavedModel, or a run"
            )
        files = sorted(path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
        names = {path.relative_to(folder).as_posix(): path for path in files}
        names = {name: path for name, path in names.items() if name != fetch_record.RECORD}
        with _explain_refusals(self.name):
            if link := next((name for name, path in names.items() if path.is_symlink()), None):
                raise ModelRefused(
                    f"{folder}/{link} is a link; a version has files only: replace it by its file"
                )
            saved_model.check_files(str(folder), {name: path.stat().st_size for name, path in names.items()})
        digest = hashlib.sha256()
        for name, path in names.items():
            digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        user = caller_name(self.yard.session)
        prefix = f"{keys.owned(keys.DATA, user)}exports/{self.name}-{digest.hexdigest()[:16]}/"
        self.yard.bucket.put_files({f"{prefix}{name}": path for name, path in names.items()})
        return f"s3://{self.yard.bucket.name}/{prefix}"


def read_figures(yard: Deployment, asked: Collection[Key], now: datetime) -> dict[Key, Figures]:
    """Return the requests, errors and durations of versions, each from its start until now."""
    ordered = sorted(set(asked))[:MOST_VERSIONS]
    if not ordered:
        return {}
    client = yard.session.client("cloudwatch")
    answer = client.get_metric_data(**request_of(yard.name.lower(), ordered, now))
    return figures_of(ordered, answer["MetricDataResults"])


def list_models(yard: Deployment) -> list[ListedModel]:
    """Return all models of the yard, by name."""
    return [reading.read(ListedModel, row) for row in yard.partition(MODELS)]


@contextmanager
def _explain_refusals(model: str) -> Iterator[None]:
    try:
        yield
    except ModelRefused as refused:
        raise _refused(model, refused.reason, None) from refused


def _refused(model: str, reason: str, act: Act | None) -> ModelNotChanged:
    means = "no version is ready" if act is Act.VERSION else "nothing was changed"
    return ModelNotChanged(
        reason, means, command_line("models", "show", model) if act else "correct it, and try again"
    )
