"""A job file under construction: its sections, its shell lines, and the rules of the job file's keys."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import yaml

from trainyard.client.importing.foreign import Foreign, Note
from trainyard.client.importing.secrets import have_secret, is_secretive, without_secrets
from trainyard.command_line import command_line
from trainyard.core.model.gpus import Wanted, choose, is_known
from trainyard.core.model.hardware import MOST_HOSTS
from trainyard.core.model.job import MOST_DATA, MOST_LABELS, Limits
from trainyard.core.model.names import store_secret
from trainyard.core.model.program_fields import MOST_ARG_CHARACTERS, OUR_PREFIXES, OURS
from trainyard.protocol.tags import PREFIX

LIMITS = Limits()
MOST_HOURS = 720.0
MOST_GIB = 16_384
WIDTH = 100
SECTIONS = (
    "name",
    "program",
    "data",
    "cluster",
    "hardware",
    "checkpoints",
    "outputs",
    "limits",
    "priority",
    "labels",
    "study",
)
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|BUCKET")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
ENDS_EARLY = "the lines end at the first command that fails (bash -eo pipefail); `|| true` lets one fail"
AS_WRITTEN = "set +e +o pipefail"
"""The first shell line for a launcher that does not stop at a failed command."""
HAVE_CREDENTIALS = "hosts have their own credentials and region; the variable is left out"
HOST_LINES = """"$(tr , '\\n' <<<"$HOSTS")\""""
"""The addresses of all hosts for bash, one a line."""
HAS_VALUE_ELSEWHERE = re.compile(r"\$\{?\w+\}?|\$\(.*\)|<[^<>]+>|\s*")
"""A value that the other launcher takes from the user's own environment, or a placeholder."""


@dataclass
class Draft:
    """A job file under construction, with notes about its gaps. `origin` is the foreign file and holds the notes."""

    origin: Foreign
    launcher: str
    job: dict[str, Any] = field(default_factory=dict)
    exports: dict[str, str] = field(default_factory=dict)
    """The variables that are exported before the shell lines, by name. Values are text that bash reads."""
    lines: list[str] = field(default_factory=list)
    """The lines for bash, if the program runs as `program.shell`."""

    def put(self, value: Any, *path: str) -> None:
        """Set a key of the job file. None, an empty mapping and an empty list set nothing."""
        if value in (None, {}, [], ()):
            return
        section = self.job
        for part in path[:-1]:
            section = section.setdefault(part, {})
        section[path[-1]] = list(value) if isinstance(value, tuple) else value

    def name(self, *candidates: Any) -> None:
        """Name the job after the first usable candidate."""
        for candidate in candidates:
            name = re.sub(r"[^a-z0-9]+", "-", str(candidate or "").lower()).strip("-")
            name = re.sub(r"^[^a-z]+", "", name)[:40].strip("-")
            if name:
                self.job["name"] = name
                return
        self.job["name"] = "imported"

    # ------------------------------------------------------------------------------------------------------- program
    def variable(self, name: str, value: Any, *path: str | int) -> None:
        """Give the program an environment variable. A secret's value is never copied."""
        note = self.origin.note
        text = _as_text(value)
        if name.startswith("AWS_"):
            note(*path, reason=HAVE_CREDENTIALS)
        elif is_secretive(name):
            self.secret(name, *path)
        elif text is None or HAS_VALUE_ELSEWHERE.fullmatch(text):
            note(*path, reason=f"the file has no value for {name}; add it to program.environment")
        elif not SHELL_NAME.fullmatch(name):
            note(*path, reason="no environment variable can have this name")
        elif self.lines:
            self.exports[name] = _quote(text)
        elif (
            name in OURS
            or name.startswith(OUR_PREFIXES)
            or not VARIABLE.fullmatch(name)
            or len(text) > MOST_ARG_CHARACTERS
            or CONTROLS.search(text)
            or "\n" in text
        ):
            note(*path, reason="this variable cannot be set by program.environment; set it in the program")
        else:
            self.put(text.replace("${", "$${"), "program", "environment", name)

    def secret(self, name: str, *path: str | int) -> None:
        """Give the program a variable whose value is a secret of the yard. The value itself is never copied."""
        self.origin.note(*path, reason=self._keep_secret(name))

    def _keep_secret(self, name: str) -> str:
        """Add a secret of the yard, and return the note with the command that stores its value."""
        secret = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-")[:40]
        self.put(secret, "program", "secrets", name.upper())
        return "the value of a secret is not copied; store it, typed unseen: " + store_secret(
            f"/trainyard/secrets/{secret}"
        )

    def provide(self, variables: Mapping[str, str]) -> None:
        """Set the variables of the other launcher that the shell lines use. Values are text that bash reads."""
        text = "\n".join(self.lines)
        for name, value in variables.items():
            if re.search(rf"{name}\b", text):
                self.exports[name] = value
                if value == HOST_LINES:
                    self.put("${hosts}", "program", "environment", "HOSTS")

    def shell(self, text: str, *path: str | int) -> None:
        """Add lines for bash, without control characters, trailing spaces and secrets. `path` is their place in the
        other launcher's file."""
        lines = text.replace("\r\n", "\n").split("\n")
        for line, number in zip(lines, self.origin.text_lines(path), strict=False):
            self.lines.append(without_secrets(CONTROLS.sub("", line).rstrip(), self._report_secret(number)))

    def _report_secret(self, line: int | None) -> Callable[[str], None]:
        def report(name: str) -> None:
            reason = HAVE_CREDENTIALS if name.startswith("AWS_") else self._keep_secret(name)
            self.origin.notes.append(Note(line, name, reason))

        return report

    def command(self, words: Sequence[str], *path: str | int) -> None:
        """Set the program's command. A command with a secret becomes a line for bash, which reads the secret from a
        variable."""
        if have_secret(words):
            self.shell(shlex.join(words), *path)
        else:
            self.put(list(words), "program", "command")

    def replace(self, old: str, new: str) -> int:
        """Replace each whole occurrence of a path or variable in the shell lines. Return the number of replacements."""
        pattern = re.compile(rf"(?<![\w./-]){re.escape(old.rstrip('/'))}(?![\w.-])")
        found = sum(len(pattern.findall(line)) for line in self.lines)
        self.lines = [pattern.sub(lambda _: new, line) for line in self.lines]
        return found

    # ---------------------------------------------------------------------------------------------------------- data
    def data(self, uri: str, name: str, *path: str | int) -> str | None:
        """Add a data entry for an S3 folder or a local folder. Return its name, or None if no entry is possible."""
        entry = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:32].strip("_")
        entry = entry if re.match("[a-z]", entry) else f"data_{entry}".rstrip("_")[:32]
        if len(self.job.get("data", {})) >= MOST_DATA:
            self.origin.note(*path, reason=f"a job has at most {MOST_DATA} data entries; {uri} is left out")
            return None
        if HAS_VALUE_ELSEWHERE.fullmatch(uri):
            self.origin.note(
                *path, reason=f"the file has no value for {uri}; add the folder to `data` as {entry}"
            )
            return None
        if uri.startswith("s3://"):
            bucket, _, key = uri.removeprefix("s3://").partition("/")
            if not key.strip("/") or not BUCKET.fullmatch(bucket) or re.search(r"[${}<>*]", uri):
                self.origin.note(
                    *path,
                    reason=f"{uri} is not a folder in a bucket; copy what the program reads to "
                    f"s3://BUCKET/data/{entry}/ in the yard's bucket",
                )
                return None
            self.put(f"s3://{bucket}/{key.rstrip('/')}/", "data", entry)
            self.origin.note(
                *path,
                reason=f"copied to each host before the program starts (read only); the yard must be allowed to read "
                f"it: {command_line('yard', 'deploy', '-c', f'data_buckets={bucket}/')}",
            )
            return entry
        if re.match(r"\w+://", uri):
            self.origin.note(
                *path,
                reason=f"hosts read S3 only; copy {uri} to s3://BUCKET/data/{entry}/ and add it to `data`",
            )
            return None
        if not uri.startswith(("./", "../")) and uri.startswith(("/", "~")):
            self.origin.note(
                *path,
                reason=f"{uri} is a path of one computer; add it to `data` as a folder beside the job file",
            )
            return None
        self.put(f"{_here(uri).rstrip('/')}/", "data", entry)
        return entry

    def file(self, name: str, target: str, *path: str | int) -> None:
        """Send one file with the program's source, and replace `target` in the shell lines by its path there."""
        self.job.setdefault("program", {}).setdefault("source", "./")
        self.exports["SOURCE_FOLDER"] = "$PWD"
        used = self.replace(target, f"$SOURCE_FOLDER/{PurePosixPath(name).name}")
        self.origin.note(
            *path,
            reason=f"data are folders; put {PurePosixPath(name).name} into {self.job['program']['source']}, which is "
            f"sent along ({times(used)} in the commands)",
        )

    def source(self, folder: Any, *path: str | int) -> None:
        """Send a folder with the job as the program's source. Folders are relative to the job file."""
        text = str(folder)
        if text.startswith(("/", "~", "$")):
            self.origin.note(
                *path, reason=f"{text} is a path of one computer; the folder of the job file is sent instead"
            )
            self.put("./", "program", "source")
        else:
            self.put(_here(text), "program", "source")

    # ------------------------------------------------------------------------------------------------------ hardware
    def gpus(self, wanted: Sequence[Wanted], *path: str | int) -> None:
        """Choose instance types for the first alternative that EC2 has, and add the types of the other alternatives."""
        types = list[str]()
        for each in wanted:
            chosen = choose(each)
            types += [name for name in chosen.types if name not in types]
            if chosen.missing:
                self.origin.note(*path, reason=f"{'; '.join(chosen.missing)}; chosen instead: {chosen.first}")
        self.put(types[:10], "hardware", "instance_types")

    def types(self, names: Iterable[str], *path: str | int) -> None:
        """Set instance types of EC2 by name, with or without SageMaker's prefix."""
        plain = [name.removeprefix("ml.") for name in names]
        for name in plain:
            if not is_known(name):
                self.origin.note(
                    *path, reason=f"{name} is not an instance type that Trainyard knows; left out"
                )
        self.put([name for name in dict.fromkeys(plain) if is_known(name)][:10], "hardware", "instance_types")

    def hosts(self, count: Any, *path: str | int) -> None:
        """Set the number of hosts that train together, each with the whole program."""
        if not isinstance(count, int) or count < 1:
            self.origin.note(*path, reason=f"{count} is not a number of hosts")
        elif count > MOST_HOSTS:
            self.origin.note(*path, reason=f"a run has at most {MOST_HOSTS} hosts")
            self.put({"strategy": "multi_worker", "workers": MOST_HOSTS}, "cluster")
        elif count > 1:
            self.put({"strategy": "multi_worker", "workers": count}, "cluster")

    def hours(self, hours: float, *path: str | int) -> None:
        """Limit the run's duration."""
        if hours > MOST_HOURS:
            self.origin.note(*path, reason=f"a run lasts at most {MOST_HOURS:g} hours")
        if hours <= 0:
            self.origin.note(*path, reason=f"it is not a duration; limits.hours is {LIMITS.hours:g}")
        else:
            self.put(_number(min(hours, MOST_HOURS)), "limits", "hours")

    def disk(self, gib: float, *path: str | int) -> None:
        """Set the size of each host's disk."""
        if not 1 <= gib <= MOST_GIB:
            self.origin.note(*path, reason=f"a disk has 1 to {MOST_GIB} GiB")
        else:
            self.put(int(gib), "hardware", "disk_gib")

    def labels(self, labels: Mapping[str, Any], *path: str | int) -> None:
        """Add tags as labels, as far as AWS can store them."""
        for name, value in labels.items():
            text = _as_text(value) or ""
            fits = re.fullmatch(r"[A-Za-z0-9 _.:/=+@-]{1,128}", name) and re.fullmatch(
                r"[A-Za-z0-9 _.:/=+@-]{0,256}", text
            )
            if (
                not fits
                or name.startswith(("aws:", PREFIX))
                or len(self.job.get("labels", {})) >= MOST_LABELS
            ):
                self.origin.note(*path, reason=f"{name}={text} cannot be a label")
            else:
                self.put(text, "labels", name)

    # -------------------------------------------------------------------------------------------------------- result
    def finish(self) -> None:
        """Write the shell lines into the job, and report the items that no importer has read."""
        while self.lines and not self.lines[-1]:
            self.lines.pop()
        while self.lines and not self.lines[0]:
            self.lines.pop(0)
        program = self.job.setdefault("program", {})
        exports = [f"export {name}={value}" for name, value in self.exports.items()]
        if self.lines:
            program["shell"] = "\n".join([*exports, *self.lines]) + "\n"
        for path in self.origin.unread():
            self.origin.note(*path, reason=f"the job file has no counterpart of this item of {self.launcher}")

    def text(self, heading: str) -> str:
        """Return the job file, with one comment for each note."""
        comments = [heading, *(f"- {note}" for note in self.notes)]
        hours = self.job.get("limits", {}).get("hours", LIMITS.hours)
        comments.append(
            f"- limits: a run saves and stops after {hours:g} hours or ${LIMITS.dollars:g} (limits.dollars)"
        )
        lines = [line for comment in comments for line in _wrap_comment(comment)]
        job = {section: self.job[section] for section in SECTIONS if section in self.job}
        body = yaml.dump(job, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
        return "\n".join(lines) + "\n\n" + body

    @property
    def notes(self) -> list[Note]:
        """Return the notes in the order of their lines, without duplicates."""
        return sorted(dict.fromkeys(self.origin.notes), key=lambda note: (note.line is None, note.line or 0))


class _Dumper(yaml.SafeDumper):
    """A dumper that writes text of several lines as a block."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _wrap_comment(comment: str) -> list[str]:
    words, lines = CONTROLS.sub(" ", comment).split(), ["#"]
    for word in words:
        if len(lines[-1]) + len(word) > WIDTH and lines[-1].strip("# "):
            lines.append("#  ")
        lines[-1] += f" {word}"
    return lines


def _number(value: float) -> float:
    """Return a whole number as an integer, and any other number with four digits."""
    return int(value) if value == int(value) else round(value, 4)


def times(count: int) -> str:
    return "replaced once" if count == 1 else f"replaced {count} times"


def is_file(path: str) -> bool:
    """Return True for a local path that names a file by its form: it has an extension, and no slash at its end."""
    return "://" not in path and bool(PurePosixPath(path).suffix) and not path.endswith("/")


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quote(text: str) -> str:
    """Return the text quoted for bash. Its variables are still expanded."""
    escaped = re.sub(r'([\\"`])', r"\\\1", text)
    return f'"{escaped}"' if re.search(r"[^\w./:=,@%+-]", text) else escaped


def _here(folder: str) -> str:
    path = PurePosixPath(folder.rstrip("/") or ".")
    return "./" if path == PurePosixPath() else str(path) if folder.startswith("..") else f"./{path}"
