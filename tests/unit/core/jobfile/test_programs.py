"""A program that cannot start is refused before a launch. A program that will probably fail causes a warning."""
# ruff: noqa: E501 - one line a row

import gzip
import sys
import tarfile
from typing import Any

import pytest

from tests.support.archives_of_programs import pack
from tests.unit.core.builders import job as admitted
from trainyard.core.jobfile import check, program_archive, references, tensorflow_names
from trainyard.core.jobfile.program_command import Started, find_start
from trainyard.core.jobfile.program_warnings import KnownFailure
from trainyard.core.jobfile.references import Findings
from trainyard.core.model.job import Job
from trainyard.core.model.program import Program

SOURCE = "s3://yard/programs/x.tar.gz"
TWO = {"workers": 2}
SERVERS = {"strategy": "parameter_server", "workers": 2, "parameter_servers": 1}
LEGACY = {"TF_USE_LEGACY_KERAS": "1"}


def a_job(*, cluster: dict[str, Any] | None = None, **program: Any) -> Job:
    document = {"name": "x", "program": {"module": "train", "source": SOURCE} | program, "cluster": cluster}
    job = check.check(document, source="jobs/x.yaml", bucket="yard")
    assert isinstance(job, Job), job.reason
    return job


def found(files: dict[str, str], links: dict[str, str] | None = None, **job: Any) -> Findings:
    return references.program_findings(a_job(**job), SOURCE, pack(files, links))


def faults(files: dict[str, str], links: dict[str, str] | None = None, **job: Any) -> list[str]:
    return [str(fault) for fault in found(files, links, **job).faults]


MODULES: list[tuple[str, dict[str, str], dict[str, Any], str | None]] = [
    # name, the archive's files, the job's program, part of the message
    ("a module at the top", {"train.py": ""}, {}, None),
    ("written with ./", {"./train.py": ""}, {}, None),
    ("in a package", {"mine/__init__.py": "", "mine/train.py": ""}, {"module": "mine.train"}, None),
    ("in a folder without __init__", {"mine/train.py": ""}, {"module": "mine.train"}, None),
    ("a package that can be run", {"mine/__init__.py": "", "mine/__main__.py": ""}, {"module": "mine"}, None),
    ("a compiled module", {"train.cpython-311-x86_64-linux-gnu.so": ""}, {}, None),
    ("a package that cannot be run", {"train/__init__.py": ""}, {}, "train is a package without a __main__.py in"),
    ("misspelt", {"trian.py": ""}, {}, 'did you mean "trian"?'),
    ("one folder too deep", {"proj/train.py": ""}, {}, "only below proj/; pack what is in there: tar czf PROGRAM.tar.gz -C proj ."),
    ("not there", {"other.py": "", "README": ""}, {}, f"train cannot be found in {SOURCE} (unpacked, its top folder is on the path); it holds other"),
    ("a submodule that is not there", {"mine/__init__.py": ""}, {"module": "mine.train"}, "mine.train cannot be found"),
    ("perhaps an installed package's", {"requirements.txt": "horses"}, {"module": "horses.train", "requirements": "requirements.txt"}, None),
    ("of the standard library", {"data.txt": ""}, {"module": "timeit"}, None),
    ("of the image", {"data.txt": ""}, {"module": "tensorboard.main"}, None),
    ("a program of the image", {"data.txt": ""}, {"module": "training.programs.digits"}, "to run the image's own program of that name, leave program.source out"),
    ("a program of one's own that is called like the image's", {"training/programs/digits.py": ""}, {"module": "training.programs.digits"}, None),
    ("a misspelt program of one's own", {"training/programs/digits.py": ""}, {"module": "training.programs.digit"}, 'did you mean "training.programs.digits"?'),
    ("requirements that are there", {"train.py": "", "req/all.txt": ""}, {"requirements": "req/all.txt"}, None),
    ("requirements elsewhere", {"train.py": "", "req/requirements.txt": ""}, {"requirements": "requirements.txt"}, "requirements.txt is not in s3://yard/programs/x.tar.gz; did you mean req/requirements.txt?"),
    ("misspelt requirements", {"train.py": "", "requirement.txt": ""}, {"requirements": "requirements.txt"}, 'did you mean "requirement.txt"?'),
]  # fmt: skip


OURS = [
    "training",
    "host",
    "runtime",
    "utils",
    "lambdas",
    "localcloud",
    "stacks",
    "demo",
    "benchmarks",
    "tests",
]


@pytest.mark.parametrize("init", [{}, {"{}/__init__.py": ""}], ids=["folder", "package"])
@pytest.mark.parametrize("name", OURS)
def test_a_package_may_be_called_as_one_of_ours(name: str, init: dict[str, str]) -> None:
    """The program's own modules are found, and the runtime, too."""
    text = f"from trainyard.runtime import start\nfrom {name}.lib import go\nimport {name}.lib\n"
    files = {f"{name}/mine.py": text, f"{name}/lib.py": "def go(): pass"} | {
        path.format(name): "" for path in init
    }
    assert found(files, module=f"{name}.mine") == Findings()
    assert found(files | {"train.py": f"import {name}.mine"}) == Findings()


@pytest.mark.parametrize("name", ["data", "programs", "host", "runtime", "training", "utils"])
def test_a_module_may_be_called_as_one_of_ours(name: str) -> None:
    files = {f"{name}.py": "from trainyard.runtime import start"}
    assert found(files, module=name) == Findings()
    assert found(files | {"train.py": f"import {name}"}) == Findings()


@pytest.mark.parametrize(
    ("files", "program", "expected"), [row[1:] for row in MODULES], ids=[row[0] for row in MODULES]
)
def test_the_module_must_be_where_a_host_looks(
    files: dict[str, str], program: dict[str, Any], expected: str | None
) -> None:
    said = faults(files, **program)
    assert len(said) == (expected is not None), said
    assert expected is None or expected in said[0]


def test_behind_a_link_there_may_be_anything() -> None:
    assert faults({"real/other.py": ""}, links={"train.py": "real/other.py"}) == []


def test_several_faults_are_said_together() -> None:
    said = faults({"x.py": ""}, requirements="requirements.txt", module="train")
    assert [fault.partition(":")[0] for fault in said] == ["program.requirements"]
    said = faults({"a.py": "import b, c", "b.py": "(", "c.py": "print 1"}, module="a")
    assert [fault.partition(" cannot")[0] for fault in said] == [
        "program.source: b.py line 1",
        "program.source: c.py line 1",
    ]


@pytest.mark.parametrize("broken", [pack({"train.py": "x" * 9000})[:60], pack({"train.py": "x"})[:-30]])
def test_half_an_archive_is_a_fault(broken: bytes) -> None:
    (fault,) = references.program_findings(a_job(), SOURCE, broken).faults
    assert "is not a complete tar archive" in fault.problem


def test_an_archive_that_unpacks_to_too_much_is_the_hosts_to_read() -> None:
    header = tarfile.TarInfo("huge.bin")
    header.size = program_archive.MOST_UNPACKED + 1
    assert references.program_findings(a_job(), SOURCE, gzip.compress(header.tobuf())) == Findings()


IMPORT = "import tensorflow as tf\n"
REFUSED: list[tuple[str, dict[str, str], dict[str, Any], str]] = [
    # name, files, job, part of the message
    ("Python 2", {"train.py": "import tensorflow\nprint 'hello'\n"}, {}, "train.py line 2 cannot be compiled: Missing parentheses in call to 'print'"),
    ("a syntax error", {"train.py": "def f(:\n"}, {}, "train.py line 1 cannot be compiled: invalid syntax"),
    ("in what is imported", {"train.py": "from lib import nets", "lib/__init__.py": "", "lib/nets.py": "x = = 1"}, {}, "lib/nets.py line 1"),
    ("in a package's own __init__", {"mine/__init__.py": "from . import a", "mine/train.py": "", "mine/a.py": "("}, {"module": "mine.train"}, "mine/a.py line 1"),
    ("Python 2's except", {"train.py": "try:\n  pass\nexcept A, e:\n  pass\n"}, {}, "this is Python 2, hosts have Python 3"),
    ("return outside a function", {"train.py": "return 1"}, {}, "'return' outside function"),
    ("the hosts' own package", {"train.py": "import os\nfrom training.runtime import start"}, {}, "train.py line 2 imports training.runtime, which is not in the archive; hosts have the package trainyard for programs"),
    ("the hosts' own package, beside one of its own", {"train.py": "import training.runtime", "training/__init__.py": ""}, {}, "imports training.runtime, which is not in the archive"),
    ("the hosts' own package, in what is imported", {"train.py": "import lib", "lib.py": "import training"}, {}, "lib.py line 1 imports training,"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "job", "expected"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_start_is_refused(files: dict[str, str], job: dict[str, Any], expected: str) -> None:
    (only,) = faults(files, **job)
    assert only.startswith("program.source: ")
    assert expected in only


WARNED: list[tuple[str, dict[str, str], dict[str, Any], str]] = [
    # name, files, job, part of the message
    ("in what an imported function imports", {"train.py": "import lib\nlib.go()", "lib.py": "def go():\n  import far", "far.py": "("}, {}, "far.py line 1"),
    ("contrib", {"train.py": IMPORT + "tf.contrib.layers.fully_connected(1, 2)"}, {}, "tf.contrib (line 2): tf.contrib left with TensorFlow 2"),
    ("contrib, imported", {"train.py": "import tensorflow.contrib.slim as slim"}, {}, "train.py uses tf.contrib (line 1)"),
    ("the MNIST tutorial's data", {"train.py": "from tensorflow.examples.tutorials.mnist import input_data"}, {}, "TRAINYARD_DATA_NAME"),
    ("estimators", {"train.py": IMPORT + "e = tf.estimator.Estimator(model_fn=1)"}, {}, "estimators left TensorFlow"),
    ("estimators under compat.v1", {"train.py": IMPORT + "e = tf.compat.v1.estimator.Estimator(1)"}, {}, "estimators left TensorFlow"),
    ("a placeholder", {"train.py": IMPORT + "x = tf.placeholder(tf.float32)"}, {}, "import tensorflow.compat.v1 as tf"),
    ("taken out of the module", {"train.py": "from tensorflow import placeholder"}, {}, "tf.placeholder (line 1)"),
    ("under its whole name", {"train.py": "import tensorflow\ns = tensorflow.Session()"}, {}, "tf.Session (line 2)"),
    ("an optimizer", {"train.py": IMPORT + "o = tf.train.AdamOptimizer(1e-3)"}, {}, "tf.train.AdamOptimizer (line 2)"),
    ("in main, run by its name", {"train.py": IMPORT + "def main(_):\n  tf.Session()\nif __name__ == '__main__':\n  tf.compat.v1.app.run()"}, {}, "tf.Session (line 3)"),
    ("in a function that is called", {"train.py": IMPORT + "def f():\n  return tf.log(1)\nf()"}, {}, "tf.log (line 3)"),
    ("in a method of a class that is used", {"train.py": IMPORT + "class A:\n  def __init__(self):\n    self.x = tf.to_float(1)\nA()"}, {}, "tf.to_float (line 4)"),
    ("in another file", {"train.py": "from net import build\nbuild()", "net.py": IMPORT + "def build():\n  tf.get_variable('x')"}, {}, "net.py uses tf.get_variable (line 3)"),
    ("handed on by a package", {"train.py": "import lib\nlib.build()", "lib/__init__.py": "from .net import build", "lib/net.py": IMPORT + "def build():\n  tf.get_variable('x')"}, {}, "lib/net.py uses tf.get_variable"),
    ("many names in one sentence", {"train.py": IMPORT + "\n".join(f"tf.{name}" for name in ("app", "flags", "Session", "log", "div", "mod"))}, {}, "tf.app (line 2), tf.flags (line 3), tf.Session (line 4), tf.log (line 5) and 2 more"),
    ("layers without Keras 2", {"train.py": "import tensorflow.compat.v1 as tf\ntf.layers.dense(1, 2)"}, {}, 'TF_USE_LEGACY_KERAS: "1" in program.environment'),
    ("SyncReplicasOptimizer", {"train.py": "import tensorflow.compat.v1 as tf\ntf.train.SyncReplicasOptimizer(1)"}, {"cluster": SERVERS}, "did not finish"),
    # code that runs rarely or never also causes a warning, because a warning costs nothing
    ("behind a version", {"train.py": IMPORT + "def session():\n  if tf.__version__ >= '2':\n    return None\n  return tf.Session()\nsession()"}, {}, "tf.Session"),
    ("after a way out of a loop", {"train.py": IMPORT + "for x in range(3):\n  if x:\n    continue\n  tf.Session()"}, {}, "tf.Session"),
    ("after a way out of the program", {"train.py": IMPORT + "import sys\nif len(sys.argv) > 1:\n  sys.exit(0)\ntf.Session()"}, {}, "tf.Session"),
    ("in an unused function", {"train.py": IMPORT + "def old():\n  tf.Session()"}, {}, "tf.Session"),
    ("in an unused class", {"train.py": IMPORT + "class Old:\n  def __init__(self):\n    tf.Session()\n  def run(self):\n    tf.Session()"}, {}, "tf.Session"),
    ("an unused method", {"train.py": IMPORT + "class A:\n  def old(self):\n    tf.Session()\nA()"}, {}, "tf.Session"),
    ("another module's function of that name", {"train.py": "import new, old\nnew.go()", "new.py": "def go(): pass", "old.py": IMPORT + "def go():\n  tf.Session()"}, {}, "old.py uses tf.Session (line 3)"),
    ("addresses in a ClusterSpec", {"train.py": IMPORT + "c = tf.train.ClusterSpec({'ps': ['pc-01:2222'], 'worker': ['10.0.0.2:2222']})"}, {"cluster": SERVERS}, "train.py line 2 makes its ClusterSpec of addresses written into it (pc-01:2222, 10.0.0.2:2222)"),
    ("addresses in lists that a ClusterSpec is made of", {"train.py": "import tensorflow.compat.v1 as tf\nps = ['pc-01:2222']\ndef main():\n  spec = {'ps': ps}\n  tf.train.ClusterSpec(spec)"}, {"cluster": SERVERS}, '"${ps_hosts}", "${worker_hosts}" in program.args'),
    ("addresses in a text", {"train.py": IMPORT + "hosts = 'a:1,b:2'\nc = tf.train.ClusterSpec({'worker': hosts.split(',')})"}, {"cluster": TWO}, "(a:1, b:2)"),
    ("a trainyard of its own", {"train.py": "import trainyard", "trainyard.py": ""}, {}, "it contains a package trainyard"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "job", "expected"), [row[1:] for row in WARNED], ids=[row[0] for row in WARNED]
)
def test_what_will_probably_fail_is_warned_of(
    files: dict[str, str], job: dict[str, Any], expected: str
) -> None:
    findings = found(files, **job)
    assert findings.faults == ()
    (only,) = findings.warnings
    assert expected in only


SILENT: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    # name, files, job
    ("TensorFlow 2", {"train.py": IMPORT + "tf.keras.Sequential().fit(1, epochs=2)\ntf.math.log(1.0)"}, {}),
    ("TensorFlow 1 through compat.v1", {"train.py": "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\ntf.Session()"}, {}),
    ("from tensorflow.compat import v1", {"train.py": "from tensorflow.compat import v1 as tf\ntf.placeholder(1)"}, {}),
    ("tf bound again", {"train.py": IMPORT + "tf = tf.compat.v1\ntf.Session()"}, {}),
    ("one of two imports", {"train.py": "try:\n  import tensorflow.compat.v1 as tf\nexcept ImportError:\n  import tensorflow as tf\ntf.Session()"}, {}),
    ("under try", {"train.py": IMPORT + "try:\n  tf.Session()\nexcept AttributeError:\n  pass"}, {}),
    ("an import under try", {"train.py": "try:\n  from tensorflow.contrib import slim\nexcept ImportError:\n  slim = None"}, {}),
    ("suppressed", {"train.py": IMPORT + "import contextlib\nwith contextlib.suppress(AttributeError):\n  tf.Session()"}, {}),
    ("behind hasattr", {"train.py": IMPORT + "if hasattr(tf, 'Session'):\n  tf.Session()"}, {}),
    ("behind hasattr, in one expression", {"train.py": IMPORT + "s = hasattr(tf, 'Session') and tf.Session()\nt = tf.Session if s else None"}, {}),
    ("only when it is the main program", {"train.py": "import lib", "lib.py": IMPORT + "if __name__ == '__main__':\n  tf.Session()"}, {}),
    ("a file without importers", {"train.py": "", "old.py": "print 'x'"}, {}),
    ("a file imported for Python 2 only", {"train.py": "import sys\nif sys.version_info < (3,):\n  import old", "old.py": "print 'x'"}, {}),
    ("as an annotation", {"train.py": "from __future__ import annotations\n" + IMPORT + "def f(s: tf.Session) -> tf.Session:\n  x: tf.Session = s\nf(1)"}, {}),
    ("put there by the program", {"train.py": IMPORT + "tf.Session = tf.compat.v1.Session\ntf.Session()"}, {}),
    ("put there by setattr", {"train.py": IMPORT + "setattr(tf, 'Session', 1)\ntf.Session()"}, {}),
    ("put there by another file", {"train.py": IMPORT + "import shim\ntf.contrib.x()", "shim.py": "import sys\nsys.modules['tensorflow.contrib'] = 1"}, {}),
    ("with a TensorFlow of its own", {"train.py": IMPORT + "tf.estimator.Estimator(1)", "r.txt": "tensorflow==2.15.1"}, {"requirements": "r.txt"}),
    ("with who knows what", {"train.py": IMPORT + "tf.estimator.Estimator(1)", "r.txt": "-r more.txt"}, {"requirements": "r.txt"}),
    ("a star import that may bind tf", {"train.py": IMPORT + "from common import *\ntf.Session()"}, {}),
    ("an argument of that name", {"train.py": IMPORT + "def f(tf):\n  tf.Session()\nf(1)"}, {}),
    ("layers with Keras 2", {"train.py": "import tensorflow.compat.v1 as tf\ntf.layers.dense(1, 2)"}, {"environment": LEGACY}),
    ("layers with Keras 2, said by the program", {"train.py": "import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\nimport tensorflow.compat.v1 as tf\ntf.layers.dense(1, 2)"}, {}),
    ("SyncReplicasOptimizer alone", {"train.py": "import tensorflow.compat.v1 as tf\ntf.train.SyncReplicasOptimizer(1)"}, {}),
    ("a ClusterSpec of arguments", {"train.py": IMPORT + "import sys\nc = tf.train.ClusterSpec({'ps': sys.argv[1].split(',')})"}, {"cluster": SERVERS}),
    ("addresses of one host", {"train.py": IMPORT + "c = tf.train.ClusterSpec({'local': ['localhost:2222']})"}, {}),
    ("addresses of something else", {"train.py": IMPORT + "proxy = 'proxy:3128'\nurl = 'http://x:80/'"}, {"cluster": TWO}),
    ("warnings of the compiler", {"train.py": "x = '\\d'\nx is 'a'"}, {}),
    ("a very long expression", {"train.py": "x = " + "+".join(["1"] * 3000)}, {}),
    ("a package called training that may be installed", {"train.py": "import training.x", "r.txt": "training"}, {"requirements": "r.txt"}),
    ("a package called training that may be missing", {"train.py": "try:\n  import training\nexcept ImportError:\n  pass"}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("files", "job"), [row[1:] for row in SILENT], ids=[row[0] for row in SILENT])
def test_of_what_may_run_nothing_is_said(files: dict[str, str], job: dict[str, Any]) -> None:
    assert found(files, **job) == Findings()


STRATEGY = "strategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
MODEL = "model = tf.keras.Sequential()\nmodel.compile(loss='mse')\n"
FITS: list[tuple[str, str, dict[str, Any], bool]] = [
    # name, train.py, job, whether the run warns
    ("on two hosts", IMPORT + STRATEGY + MODEL + "model.fit(1)", {"cluster": TWO}, True),
    ("compiled without keywords", IMPORT + STRATEGY + "model = tf.keras.Sequential()\nmodel.compile('sgd', 'mse')\nmodel.fit(1)", {"cluster": TWO}, True),
    ("known by its arguments", IMPORT + STRATEGY + MODEL + "other.fit(1, epochs=3)", {"cluster": TWO}, True),
    ("keras under its own name", IMPORT + STRATEGY + "import keras\nm = keras.Model()\nm.fit(1, epochs=3)", {"cluster": TWO}, True),
    ("where there is a cluster", IMPORT + "import os\nif 'TF_CONFIG' in os.environ:\n  " + STRATEGY + MODEL + "model.fit(1)", {"cluster": TWO}, True),
    ("with parameter servers", IMPORT + "s = tf.distribute.ParameterServerStrategy(1)\n" + MODEL + "model.fit(1)", {"cluster": SERVERS}, True),
    ("with the old name", IMPORT + "s = tf.distribute.experimental.MultiWorkerMirroredStrategy()\n" + MODEL + "model.fit(1)", {"cluster": TWO}, True),
    ("with the runtime's strategy", IMPORT + "from trainyard import runtime\nr = runtime.start()\n" + MODEL + "model.fit(1)", {"cluster": TWO}, True),
    ("on one host", IMPORT + STRATEGY + MODEL + "model.fit(1)", {}, False),
    ("with one worker", IMPORT + STRATEGY + MODEL + "model.fit(1)", {"cluster": {"strategy": "multi_worker"}}, False),
    ("with Keras 2 by the job", IMPORT + STRATEGY + MODEL + "model.fit(1)", {"cluster": TWO, "environment": LEGACY}, False),
    ("with Keras 2 by the program", "import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\n" + IMPORT + STRATEGY + MODEL + "model.fit(1)", {"cluster": TWO}, False),
    ("with tf_keras", IMPORT + "import tf_keras\n" + STRATEGY + "model = tf_keras.Sequential()\nmodel.fit(1, epochs=2)", {"cluster": TWO}, False),
    ("with a loop of its own", IMPORT + STRATEGY + MODEL + "for x in range(9):\n  strategy.run(print)", {"cluster": TWO}, False),
    ("with a strategy of one host", IMPORT + "s = tf.distribute.MirroredStrategy()\n" + MODEL + "model.fit(1)", {"cluster": TWO}, False),
    ("a strategy that may not be made", IMPORT + "import sys\nif sys.argv[1:]:\n  " + STRATEGY + MODEL + "model.fit(1)", {"cluster": TWO}, False),
    ("the fit of another class", IMPORT + STRATEGY + MODEL + "scaler.fit(1)", {"cluster": TWO}, False),
    ("a fit that may be unused", IMPORT + STRATEGY + MODEL + "def old():\n  model.fit(1)", {"cluster": TWO}, True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "job", "warned"), [row[1:] for row in FITS], ids=[row[0] for row in FITS])
def test_keras_3_fit_across_hosts_is_warned_of(text: str, job: dict[str, Any], warned: bool) -> None:
    findings = found({"train.py": text}, **job)
    assert findings.faults == ()
    assert len(findings.warnings) == warned, findings
    for warning in findings.warnings:
        assert "import tf_keras instead of tf.keras" in warning
        assert isinstance(warning, KnownFailure)
        has_own_name = "import keras" in text
        assert warning.change == ("" if has_own_name else 'program.environment.TF_USE_LEGACY_KERAS="1"')


ELASTIC = {"strategy": "multi_worker", "workers": {"min": 2, "max": 4}}
DTENSOR = "from tensorflow.experimental import dtensor\nm = dtensor.create_distributed_mesh([('batch', 2)])\n"
CHECKPOINT = "tf.train.Checkpoint(v=1)\n"
SPLIT: list[tuple[str, str, dict[str, Any], str]] = [
    # name, train.py, cluster, part of the warning; empty without one
    ("a mesh of the runtime, of any size", "from trainyard.runtime import mesh\nmesh(batch=2, model=2)", ELASTIC, "train.py line 2 splits one model over the hosts (mesh), which needs a fixed number of them"),
    ("lent devices, of any number", "from trainyard import runtime\nr = runtime.serve()", ELASTIC, "(serve)"),
    ("DTensor's own mesh, of any size", DTENSOR, ELASTIC, "cluster.workers has min and max: give one number"),
    ("a connected cluster of any size", IMPORT + "tf.config.experimental_connect_to_cluster(1)", ELASTIC, "(experimental_connect_to_cluster)"),
    ("a mesh of a fixed size", "from trainyard.runtime import mesh\nmesh(batch=2, model=2)", TWO, ""),
    ("data parallel, of any size", "from trainyard.runtime import start\nstart()", ELASTIC, ""),
    ("a checkpoint of DTensor's parts", IMPORT + DTENSOR + CHECKPOINT, TWO, "train.py line 4 calls tf.train.Checkpoint in a DTensor program"),
    ("a manager of such checkpoints", IMPORT + DTENSOR + "tf.train.CheckpointManager(1, 'x', 3)", TWO, "tf.train.CheckpointManager in a DTensor program"),
    ("on one host", IMPORT + DTENSOR + CHECKPOINT, {}, ""),
    ("a checkpoint without DTensor", IMPORT + CHECKPOINT + "tf.train.latest_checkpoint('x')", TWO, ""),
    ("the runtime's mesh", IMPORT + DTENSOR + CHECKPOINT + "from trainyard.runtime import mesh\nmesh(batch=1, model=2)", TWO, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "cluster", "warning"), [row[1:] for row in SPLIT], ids=[row[0] for row in SPLIT]
)
def test_a_model_split_over_hosts_needs_all_of_them(text: str, cluster: dict[str, Any], warning: str) -> None:
    findings = found({"train.py": text}, cluster=cluster or None)
    assert findings.faults == ()
    splits = [each for each in findings.warnings if "splits one model" in each or "DTensor" in each]
    assert len(splits) == bool(warning), findings
    assert all(warning in each for each in splits)


NEWER: list[tuple[str, str, tuple[int, int]]] = [
    # name, a line that an older Python cannot compile, the first version that can
    ("a type", "type X = int", (3, 12)),
    ("a generic type", "type X[T] = list[T]", (3, 12)),
    ("a generic function", "def f[T](x: T) -> T: return x", (3, 12)),
    ("a generic class", "class A[T]: pass", (3, 12)),
    ("quotes in an f-string", "x = f'{d['a']}'", (3, 12)),
    ("a template", "x = t'{x}'", (3, 14)),
]


@pytest.mark.parametrize(("line", "since"), [row[1:] for row in NEWER], ids=[row[0] for row in NEWER])
def test_text_for_a_newer_python_is_never_refused_by_an_older_one(line: str, since: tuple[int, int]) -> None:
    seen = found({"train.py": f"import os\n{line}\n"})
    assert seen.faults == ()
    is_said = any(f"may be valid for Python {since[0]}.{since[1]} or newer" in each for each in seen.warnings)
    assert is_said is (sys.version_info < since)


@pytest.mark.parametrize("line", ["def f(:", "x = (", "type = = 1", "print 1", "class A(: pass"])
def test_what_no_python_can_compile_is_refused_by_each(line: str) -> None:
    assert "train.py line 1 cannot be compiled" in faults({"train.py": f"{line}\n"})[0]


def test_what_is_longer_than_a_source_is_not_looked_into() -> None:
    assert found({"train.py": "(" + " " * 1024 * 1024}) == Findings()


def test_no_name_is_both_gone_and_version_1s() -> None:
    assert not set(tensorflow_names.GONE) & tensorflow_names.VERSION_1


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("SecureString", None),
        (
            None,
            'the parameter /yard/secrets/wandb does not exist; store the secret first: read -rs VALUE; printf %s "$VALUE" | aws ssm put-parameter',
        ),
        ("String", "is a String, which is not encrypted"),
        ("StringList", "delete it (aws ssm delete-parameter --name /yard/secrets/wandb)"),
    ],
)
def test_a_secret_must_be_there_and_encrypted(kind: str | None, said: str | None) -> None:
    program = {"module": "training.programs.digits", "secrets": {"WANDB_API_KEY": "wandb"}}
    wanted = admitted(program=program)
    found = references.secret_faults(wanted, "yard", {"/yard/secrets/wandb": kind} if kind else {})
    assert [fault.path for fault in found] == (["program.secrets.WANDB_API_KEY"] if said else [])
    assert all(said is not None and said in fault.problem for fault in found)


COMMANDS: list[tuple[list[str | int], str | None, str | None]] = [
    (["torchrun", "train.py"], None, "train.py"),
    (["torchrun", "--nnodes", 2, "--rdzv-endpoint=${master_addr}:${master_port}", "./src/train.py", "--conf", "x.py"], None, "src/train.py"),
    (["torchrun", "-m", "mine.train"], "mine.train", None),
    (["python", "-m", "torch.distributed.run", "--nnodes=2", "train.py"], None, "train.py"),
    (["python3", "-u", "-m", "torch.distributed.launch", "-m", "mine.train"], "mine.train", None),
    (["python", "-m", "accelerate.commands.launch", "src/train.py"], None, "src/train.py"),
    (["accelerate", "launch", "train.py"], None, "train.py"),
    (["python", "-u", "train.py", "other.py"], None, "train.py"),
    (["python3.11", "-m", "mine.train"], "mine.train", None),
    (["python", "-c", "import train"], None, None),
    (["python", "-X", "dev", "train.py"], None, None),
    (["python", "${model}/train.py"], None, None),
    (["python", "/opt/train.py"], None, None),
    (["python", "../train.py"], None, None),
    (["sh", "run.sh"], None, "run.sh"),
    (["bash", "-c", "train.py"], None, None),
    (["./run.sh", "train.py"], None, "run.sh"),
    (["/usr/bin/env", "train.py"], None, None),
    (["nvidia-smi"], None, None),
    (["mpirun", "train.py"], None, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "module", "file"), COMMANDS, ids=[" ".join(map(str, row[0])) for row in COMMANDS]
)
def test_what_a_command_starts_as_far_as_its_words_show_it(
    command: list[str | int], module: str | None, file: str | None
) -> None:
    assert find_start(Program(command=tuple(command))) == Started(module, file)


SHELLS: list[tuple[str, str | None, str | None]] = [
    # lines, module or file that they certainly start
    ("python train.py", None, "train.py"),
    ("# comment\n\nset -x\nexport A=1 B=2\nCUDA_VISIBLE_DEVICES=0 exec python -u train.py --lr 1 | tee log.txt", None, "train.py"),
    ("nohup python train.py > log 2>&1 &", None, "train.py"),
    ("python \\\n  -m mine.train && echo done", "mine.train", None),
    ("pip install x\ntorchrun --nnodes=2 ./src/train.py", None, "src/train.py"),
    ("cd src\npython train.py", None, None),
    ("if [ -d x ]; then python train.py; fi", None, None),
    ("echo 'print(1)' > train.py\npython train.py", None, None),
    ("cat > train.py <<EOF\nprint(1)\nEOF\npython train.py", None, None),
    ("git clone x && python train.py", None, None),
    ("echo a; cd src; python train.py", None, None),
    ("echo 'an open\nquotation'\npython train.py", None, None),
    ("python $SCRIPT", None, None),
    ("python ${SCRIPT}.py", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "module", "file"), SHELLS, ids=[row[0] for row in SHELLS])
def test_what_lines_for_a_shell_certainly_start(lines: str, module: str | None, file: str | None) -> None:
    assert find_start(Program(shell=lines)) == Started(module, file)


def test_lines_for_a_shell_that_name_what_is_not_in_the_archive_are_refused() -> None:
    [fault] = faults({"train.py": ""}, module=None, shell="set -x\npython trian.py\n")
    assert fault.startswith("program.shell: trian.py is not in")
    assert 'did you mean "train.py"?' in fault


@pytest.mark.parametrize(
    ("command", "files", "said"),
    [
        (["torchrun", "trian.py"], {"train.py": ""}, 'trian.py is not in s3://yard/programs/x.tar.gz, in whose top folder the command runs; did you mean "train.py"?'),
        (["torchrun", "train.py"], {"src/train.py": ""}, "did you mean src/train.py?"),
        (["./run.sh"], {"train.py": ""}, "run.sh is not in s3://yard/programs/x.tar.gz"),
        (["torchrun", "-m", "mine.train"], {"train.py": ""}, "mine.train cannot be found in"),
        (["python", "train.py"], {"train.py": "def f(:\n"}, "train.py line 1 cannot be compiled"),
    ],
)  # fmt: skip
def test_a_command_that_names_what_is_not_in_the_archive_is_refused(
    command: list[str], files: dict[str, str], said: str
) -> None:
    [fault] = faults(files, module=None, command=command)
    assert said in fault


def test_a_command_of_which_nobody_knows_is_the_hosts_to_find() -> None:
    assert faults({"train.py": ""}, module=None, command=["mpirun", "-n", "2", "x.py"]) == []


def test_a_script_that_a_command_starts_is_looked_into_as_a_module_is() -> None:
    files = {"train.py": f"{IMPORT}tf.Session()\n"}
    assert "tf.Session (line 2)" in found(files, module=None, command=["torchrun", "train.py"]).warnings[0]


@pytest.mark.parametrize(
    ("args", "names"), [({"shuffle": False, "fast": True}, ["shuffle"]), ({}, []), (["--no-shuffle"], [])]
)
def test_a_flag_that_is_false_is_warned_of(args: Any, names: list[str]) -> None:
    said = references.findings(
        a_job(source=None, module="training.programs.digits", args=args), None, {}
    ).warnings
    assert [each.split()[0] for each in said] == [f"program.args.{name}" for name in names]
