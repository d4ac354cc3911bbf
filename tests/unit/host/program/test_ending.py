from dataclasses import replace
from pathlib import Path

import pytest

from training.host.disk import Room
from training.host.program.ending import (
    FOLDERS_OF_RESULTS,
    End,
    Failed,
    Finished,
    Stopped,
    decide,
    last_lines,
    up_to_its_cell,
    why,
)
from training.host.program.exits import Exit
from training.host.program.tracebacks import last_exception
from trainyard.core.model.program import Result
from trainyard.protocol.processes import FORMING
from trainyard.protocol.signals import FailureKind, StopReason

TRACEBACK = """step 3
Traceback (most recent call last):
  File "/x.py", line 1, in <module>
ValueError: the labels are strings
"""
PEER = "tensorflow.python.framework.errors_impl.UnavailableError: {{function_node __wrapped}} Socket closed"
UNHEALTHY = (
    "tensorflow.python.framework.errors_impl.InternalError: The following tasks are unhealthy "
    "(stopped sending heartbeats): /job:worker/task:1"
)
BROADCAST = (
    "tensorflow.python.framework.errors_impl.InternalError: Unable to copy tensor value for broadcast. Original "
    "message: \n"
)
LOST_CLIENT = (
    ':UNKNOWN:Error received from peer  {grpc_status:14, grpc_message:"recvmsg:Connection reset by peer"}\n'
    'Traceback (most recent call last):\n  File "/x.py", line 1, in <module>\n' + BROADCAST
)


FULL = Room(Path("/var/lib/trainyard"), free=1_000_000, total=50_000_000_000)
ASKED = "step 3\n[trainyard] asking the program to leave: limit\n"
INTERRUPTED = f"{TRACEBACK}{ASKED}Traceback (most recent call last):\n  File x\nKeyboardInterrupt\n"
OWN_INTERRUPT = f"{ASKED}Traceback (most recent call last):\n  File x\nmine.GracefulExit: see you\n"
NAMED_SIGNAL = f"{ASKED}Traceback (most recent call last):\n  File x\nRuntimeError: got SIGTERM, leaving\n"
PREEMPTION = "INFO:tensorflow:Member worker/1 has received termination notice.\n"


ALL = " together with all its processes, but not by this host's agent"
OWN = ", which neither this host's agent nor the kernel (for lack of memory) sent: the program or a user sent it"


@pytest.mark.parametrize(
    ("sentence", "end", "answer"),
    [
        ("0 is finished", End(code=0, tail=""), Finished()),
        (
            "a program that fails on broken hardware is not at fault",
            End(code=1, tail=TRACEBACK, broken_hardware="Xid 79"),
            Failed(FailureKind.HARDWARE, "Xid 79", None),
        ),
        ("a program that finished is finished", End(code=0, tail="", broken_hardware="Xid 79"), Finished()),
        (
            "0 before SIGTERM was sent",
            End(code=0, tail="", asked=StopReason.ASKED, handled_sigterm=False),
            Finished(),
        ),
        (
            "0 after SIGTERM: it saved and left",
            End(code=0, tail=ASKED, asked=StopReason.INTERRUPTED),
            Stopped(StopReason.INTERRUPTED),
        ),
        (
            "also when a person stops the run",
            End(code=0, tail=ASKED, asked=StopReason.ASKED),
            Stopped(StopReason.ASKED),
        ),
        ("and at its cap", End(code=0, tail=ASKED, asked=StopReason.LIMIT), Stopped(StopReason.LIMIT)),
        ("and one that hung", End(code=0, tail=ASKED, asked=StopReason.HANGS), Stopped(StopReason.HANGS)),
        (
            "except for a program at its last step",
            End(code=0, tail=ASKED, asked=StopReason.INTERRUPTED, at_end=True),
            Finished(),
        ),
        (
            "at its last step without its results",
            End(code=0, tail=ASKED, asked=StopReason.INTERRUPTED, at_end=True, missing=("model",)),
            Stopped(StopReason.INTERRUPTED),
        ),
        ("75 by itself: a peer left", End(code=75, tail=""), Stopped(StopReason.PEER)),
        (
            "75 after the notice",
            End(code=75, tail="", asked=StopReason.INTERRUPTED),
            Stopped(StopReason.INTERRUPTED),
        ),
        ("75 after the order", End(code=75, tail="", asked=StopReason.ASKED), Stopped(StopReason.ASKED)),
        (
            "a program that knows nothing dies of our SIGTERM",
            End(code=143, tail="", asked=StopReason.ASKED),
            Stopped(StopReason.ASKED),
        ),
        (
            "we had to kill it",
            End(code=137, tail="", asked=StopReason.INTERRUPTED, killed=True),
            Stopped(StopReason.INTERRUPTED),
        ),
        (
            "at its cap it says shutdown_notice with 1",
            End(code=1, tail=ASKED + "bye\n", asked=StopReason.LIMIT),
            Stopped(StopReason.LIMIT),
        ),
        (
            "or with 3, taken back by AWS",
            End(code=3, tail=ASKED, asked=StopReason.INTERRUPTED),
            Stopped(StopReason.INTERRUPTED),
        ),
        (
            "SIGTERM is its KeyboardInterrupt",
            End(code=130, tail=INTERRUPTED, asked=StopReason.LIMIT),
            Stopped(StopReason.LIMIT),
        ),
        (
            "which it lets end it with 1",
            End(code=1, tail=INTERRUPTED, asked=StopReason.ASKED),
            Stopped(StopReason.ASKED),
        ),
        (
            "or an exception of its own making",
            End(code=1, tail=OWN_INTERRUPT, asked=StopReason.LIMIT),
            Stopped(StopReason.LIMIT),
        ),
        (
            "or one that says so",
            End(code=1, tail=NAMED_SIGNAL, asked=StopReason.LIMIT),
            Stopped(StopReason.LIMIT),
        ),
        (
            "what it showed before counts for nothing",
            End(code=1, tail=TRACEBACK + ASKED, asked=StopReason.LIMIT),
            Stopped(StopReason.LIMIT),
        ),
        (
            "it crashes on its way out",
            End(code=134, tail=ASKED, asked=StopReason.LIMIT),
            Stopped(StopReason.LIMIT),
        ),
        (
            "a signal arrives before our own",
            End(code=137, tail=ASKED, asked=StopReason.LIMIT),
            Stopped(StopReason.LIMIT),
        ),
        (
            "0 without its results, when asked",
            End(code=0, tail="", asked=StopReason.LIMIT, missing=("model",)),
            Stopped(StopReason.LIMIT),
        ),
        (
            "a full disk does not matter to our SIGTERM",
            End(code=143, tail="", asked=StopReason.LIMIT, room=FULL),
            Stopped(StopReason.LIMIT),
        ),
        (
            "a program that hung and was killed for it",
            End(code=137, tail=ASKED, asked=StopReason.HANGS, killed=True),
            Stopped(StopReason.HANGS),
        ),
        (
            "one that woke when it was asked to",
            End(code=75, tail=ASKED, asked=StopReason.HANGS),
            Stopped(StopReason.HANGS),
        ),
        (
            "all its processes were killed, or the power was cut",
            End(code=137, tail="", with_keeper=True),
            Stopped(StopReason.KILLED, f"the program was ended by SIGKILL{ALL}"),
        ),
        (
            "one of several programs was ended from outside",
            End(code=143, tail="step 7\n", gang=2),
            Stopped(StopReason.KILLED, f"the program was ended by SIGTERM{OWN}; its last line: step 7"),
        ),
        (
            "a ps was killed before its time",
            End(code=137, tail="", serves=True, gang=3, with_keeper=True),
            Stopped(StopReason.KILLED, f"the program was ended by SIGKILL{ALL}"),
        ),
        (
            "TensorFlow's own handler saved",
            End(code=42, tail="", asked=StopReason.ASKED),
            Stopped(StopReason.ASKED),
        ),
        ("and so did its peers", End(code=42, tail=PREEMPTION, gang=2), Stopped(StopReason.PEER)),
        (
            "a program that is not elastic saw its peer go",
            End(code=1, tail=PEER, gang=2),
            Stopped(StopReason.PEER),
        ),
        (
            "so it does when all are asked to leave",
            End(code=1, tail=PEER, gang=2, asked=StopReason.ASKED),
            Stopped(StopReason.ASKED),
        ),
        ("a frozen peer is unhealthy", End(code=1, tail=UNHEALTHY, gang=2), Stopped(StopReason.PEER)),
        ("a client of DTensor's is gone", End(code=1, tail=LOST_CLIENT, gang=2), Stopped(StopReason.PEER)),
        (
            "a peer vanished while the cluster formed",
            End(code=142, tail=f"{FORMING}\n", gang=2),
            Stopped(StopReason.PEER),
        ),
        (
            "a ps may end as it likes with its run",
            End(code=134, tail="", serves=True, asked=StopReason.ASKED),
            Stopped(StopReason.ASKED),
        ),
    ],
)
def test_what_a_programs_end_means(sentence: str, end: End, answer: Finished | Stopped) -> None:
    assert decide(end) == answer, sentence


def test_the_programs_own_error_is_the_reason() -> None:
    assert decide(End(code=1, tail=TRACEBACK, gang=2)) == Failed(
        FailureKind.PROGRAM, "the program ended with exit code 1: ValueError: the labels are strings", 1
    )


@pytest.mark.parametrize(
    ("sentence", "end"),
    [
        (
            "it stays one when it was asked to leave",
            End(code=1, tail=TRACEBACK, asked=StopReason.ASKED, gang=2),
        ),
        ("also at its cap", End(code=1, tail=ASKED + TRACEBACK, asked=StopReason.LIMIT)),
        (
            "after its own KeyboardInterrupt",
            End(code=1, tail=INTERRUPTED + TRACEBACK, asked=StopReason.LIMIT),
        ),
        ("it could not save: the disk was full", End(code=1, tail=ASKED, asked=StopReason.LIMIT, room=FULL)),
        ("nor for lack of memory", End(code=137, tail=ASKED, asked=StopReason.LIMIT, starved=True)),
        ("an interrupt without a request", End(code=130, tail="KeyboardInterrupt\n")),
        ("the same error on a single host has another cause", End(code=1, tail=PEER)),
        ("DTensor's error on a single host has, too", End(code=1, tail=LOST_CLIENT)),
        ("DTensor's error without a lost connection", End(code=1, tail=BROADCAST, gang=2)),
        ("a ps that ends by itself has not lost a peer", End(code=1, tail=TRACEBACK, serves=True, gang=3)),
        ("42 without a message means nothing", End(code=42, tail="", gang=2)),
        ("the kernel killed it for lack of memory", End(code=137, tail="", starved=True, gang=2)),
        ("it was killed on a full disk", End(code=137, tail="", room=FULL)),
        ("it crashed", End(code=139, tail="")),
        ("it killed itself", End(code=137, tail="step 7\n")),
        ("also on several hosts", End(code=137, tail="step 7\n", gang=2)),
        ("it ended itself by SIGTERM", End(code=143, tail="step 7\n")),
        ("its own alarm", End(code=142, tail="step 7\n")),
        (
            "also on several hosts, where the cluster had formed without it",
            End(code=142, tail="step 7\n", gang=2),
        ),
        ("a metric that is called like an exception", End(code=1, tail="MeanAbsoluteError: 0.31\n")),
    ],
)
def test_an_end_that_is_the_programs_own(sentence: str, end: End) -> None:
    assert isinstance(decide(end), Failed), sentence


@pytest.mark.parametrize(
    ("sentence", "end", "is_whole"),
    [
        ("it finished", End(code=0, tail=""), True),
        ("it says that it has saved", End(code=75, tail="", asked=StopReason.LIMIT), True),
        ("it went by itself, with a code of its own", End(code=1, tail=ASKED, asked=StopReason.LIMIT), True),
        ("its signal's own end", End(code=143, tail=ASKED, asked=StopReason.LIMIT), False),
        (
            "an interrupt may come while it saves",
            End(code=1, tail=INTERRUPTED, asked=StopReason.LIMIT),
            False,
        ),
        ("it had to be killed", End(code=1, tail=ASKED, asked=StopReason.LIMIT, killed=True), False),
        ("the disk was full", End(code=1, tail=ASKED, asked=StopReason.LIMIT, room=FULL), False),
        ("it was not asked", End(code=1, tail=""), False),
    ],
)
def test_whether_what_was_written_last_is_whole(sentence: str, end: End, is_whole: bool) -> None:
    assert end.is_whole is is_whole, sentence


def test_an_end_without_what_the_job_expects_is_a_failure() -> None:
    assert decide(End(code=0, tail="", missing=("model", "metrics"))) == Failed(
        FailureKind.PROGRAM,
        "the program ended with 0, but left no model and no metrics, which program.expect requires: write model into "
        "the folder that TRAINYARD_MODEL names; write metrics into the file that TRAINYARD_METRICS names",
        0,
    )


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (139, TRACEBACK, "SIGSEGV"),
        (3, "bye", "exit code 3 and printed no exception; its last line: bye"),
        (137, "step 7\nstep 8\n", "SIGKILL, which neither this host's agent nor the kernel"),
        (137, "step 7\nstep 8\n", "; its last line: step 8"),
        (143, "step 8\n", "SIGTERM, which neither this host's agent nor the kernel"),
        (142, "step 8\n", "SIGALRM, an alarm that it had set itself; its last line: step 8"),
        (134, "terminate called\n  what():  boom\n", "SIGABRT; its last line: what():  boom"),
        (
            2,
            "usage: ...\ndigits.py: error: unrecognized arguments: --epoch\n[trainyard] ended\n",
            "arguments: --epoch",
        ),
    ],
)
def test_the_reason_says_what_happened(code: int, said: str, words: str) -> None:
    assert words in why(End(code=code, tail=said))


@pytest.mark.parametrize("code", [1, 120, 137])
def test_a_full_disk_is_the_reason_even_when_the_program_could_not_say_so(code: int) -> None:
    reason = why(End(code=code, tail="", room=FULL))
    assert (
        "the disk of this host is full (1 MB of 50.0 GB are free at /var/lib/trainyard): write "
        "hardware.disk_gib: 100 into the job file" in reason
    )


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            "ModuleNotFoundError: No module named 'transformers.models'",
            "add transformers to the file that program.req",
        ),
        ("ModuleNotFoundError: No module named 'sklearn'", "add scikit-learn to"),
        ("ModuleNotFoundError: No module named 'tensorflow.contrib'", "TensorFlow 2 has no tf.contrib"),
        ("ModuleNotFoundError: No module named 'tensorflow.examples'", "put the data into the bucket"),
        (
            "ImportError: cannot import name 'Foo' from 'keras.utils' (/opt/x)",
            "the host's keras is another version",
        ),
        ("AttributeError: module 'tensorflow' has no attribute 'placeholder'", "tensorflow.compat.v1"),
        ("AttributeError: module 'tensorflow' has no attribute 'contrib'", "TensorFlow 2 has no tf.contrib"),
        (
            "AttributeError: module 'tensorflow' has no attribute 'estimator'",
            "TensorFlow has no tf.estimator",
        ),
        (
            "AttributeError: module 'tensorflow._api.v2.train' has no attribute 'GradientDescentOptimizer'",
            "tensorflow.compat.v1",
        ),
        ("AttributeError: `dense` is not available with Keras 3.", "tf_keras.layers"),
        (
            "ValueError: Attempt to convert a value (PerReplica:{\n  0: x} with an unsupported type",
            "import tf_keras instead of tf.keras",
        ),
        (
            "ValueError: To use this dataset, you need to pass this dataset to ClusterCoordinator.create",
            "import tf_keras instead of tf.keras",
        ),
        (
            "tensorflow.python.framework.errors_impl.UnimplementedError: File system scheme 's3' not implemented",
            "TRAINYARD_DATA_<NAME>",
        ),
        (
            "ResourceExhaustedError: Graph execution error:\n\nDetected at x\nOOM when allocating tensor",
            "smaller batch",
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 16384.00 GiB. GPU 0 has a total capacity of",
            "an instance type with more GPU memory",
        ),
        (
            "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4.00TiB with",
            "an instance type with more GPU memory",
        ),
        (
            "ResourceExhaustedError: OOM when allocating tensor on /job:localhost/task:0/device:CPU:0 by allocator cpu",
            "the host's memory is too small",
        ),
        (
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 PiB for an array with shape (1125,)",
            "the host's memory is too small",
        ),
        ("MemoryError", "the host's memory is too small"),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory",
            "the host's memory is too small",
        ),
        (
            "JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 281474976710656 bytes.",
            "the host's memory",
        ),
        ("RuntimeError: No CUDA GPUs are available", "that this host does not have: name a type"),
        (
            "RuntimeError: Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are present.",
            "that this host does not have: name a type",
        ),
        (
            "InvalidArgumentError: Could not satisfy device specification '/job:localhost/task:0/device:GPU:0'.",
            "that this host does not have: name a type",
        ),
        (
            "AssertionError: Torch not compiled with CUDA enabled",
            "built without CUDA: name a build with CUDA",
        ),
        ("OSError: [Errno 98] Address already in use", "another server uses the port"),
        (
            "Exception: URL fetch failure on https://x/words.txt: None -- timed out",
            "the program loads https://x/words.txt from the internet, which this host cannot reach: put it into",
        ),
        (
            "Exception: URL fetch failure on https://x/tf-keras-datasets/mnist.npz: None -- [Errno -3] no name",
            "mnist.npz is one of Keras's datasets: put it into the bucket as datasets/mnist.npz below a folder that",
        ),
        ("urllib.error.URLError: <urlopen error timed out>", "the program loads something from the internet"),
        ("SyntaxError: Missing parentheses in call to 'print'. Did you mean print(...)?", "Python 2"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'train.csv'", "${data.NAME}"),
    ],
)
def test_the_reason_says_what_to_do(said: str, advice: str) -> None:
    assert advice in why(End(code=1, tail=f"Traceback (most recent call last):\n  File x\n{said}\n"))


def test_an_error_that_nobody_knows_gets_no_advice() -> None:
    assert why(End(code=1, tail=TRACEBACK)).endswith("ValueError: the labels are strings")


def test_of_a_notebook_the_cell_is_named_before_its_error_and_advice_comes_as_ever() -> None:
    last = "cell [5] of train.ipynb ended with exit code 1\n"
    told = why(End(code=1, tail=f"{TRACEBACK}{last}"))
    assert (
        told
        == "the program ended with exit code 1: cell [5] of train.ipynb: ValueError: the labels are strings"
    )
    missing = "ModuleNotFoundError: No module named 'cv2'\n"
    exits = f"mine\n{last[:-2]}3\n"
    assert "cell [5] of train.ipynb: ModuleNotFoundError: No module named 'cv2'; add opencv" in why(
        End(code=1, tail=f"{missing}{last}")
    )
    assert why(End(code=3, tail=exits)).endswith(
        "printed no exception; its last line: cell [5] of train.ipynb ended with exit code 3"
    )


def test_what_a_kernel_shows_as_it_leaves_is_not_why_its_notebook_ended() -> None:
    last = "cell [5] of train.ipynb ended with exit code 1"
    leaves = "zmq.error.ZMQError: Socket operation on non-socket\n"
    assert up_to_its_cell(f"{leaves}{TRACEBACK}{last}\n{leaves}") == f"{leaves}{TRACEBACK}{last}"
    assert up_to_its_cell(TRACEBACK + leaves) == TRACEBACK + leaves


OP_ERRORS = [
    # name, output of TensorFlow, reason
    (
        "of a graph",
        """tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node sequential_1/embedding_1/GatherV2 defined at (most recent call last):
  File "/x/train.py", line 15, in <module>

  File "/x/keras/src/backend/tensorflow/numpy.py", line 3095, in take

indices[0,0] = 20 is not in [0, 10)
\t [[{{node sequential_1/embedding_1/GatherV2}}]] [Op:__inference_multi_step_on_iterator_941]
[trainyard] the program ended with exit code 1
""",
        "InvalidArgumentError: Graph execution error: indices[0,0] = 20 is not in [0, 10)",
    ),
    (
        "of several hosts",
        """tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

2 root error(s) found.
  (0) INVALID_ARGUMENT:  indices = 5 is not in [0, 2)
\t [[{{node GatherV2}}]]
  (1) CANCELLED:  Function was cancelled before it was started
0 successful operations.
""",
        "InvalidArgumentError: Graph execution error: indices = 5 is not in [0, 2)",
    ),
    (
        "in one line",
        "tensorflow.python.framework.errors_impl.NotFoundError: ckpt-1_temp/part-0; No such file [Op:SaveV2]\n",
        "NotFoundError: ckpt-1_temp/part-0; No such file [Op:SaveV2]",
    ),
    (
        "of a layer",
        "ValueError: Exception encountered when calling Dense.call().\n\nNo variables\n",
        "Dense.call(): No variables",
    ),
    (
        "with nothing below",
        "InvalidArgumentError: Graph execution error:\n",
        "InvalidArgumentError: Graph execution error:",
    ),
]


@pytest.mark.parametrize(
    ("said", "reason"), [row[1:] for row in OP_ERRORS], ids=[row[0] for row in OP_ERRORS]
)
def test_the_reason_of_an_operation_is_the_line_before_its_node(said: str, reason: str) -> None:
    assert last_exception(f"step 1\nTraceback (most recent call last):\n{said}").endswith(reason)


def test_the_last_exception_wins() -> None:
    assert last_exception(TRACEBACK + "mypackage.errors.BadConfigError: no\nafterwards") == (
        "mypackage.errors.BadConfigError: no"
    )


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        (b"one\ntwo\nthree\n", 100, "one\ntwo\nthree\n"),
        (b"one\ntwo\nthree\n", 9, "three\n"),
        (b"x" * 50, 10, "x" * 10),
        (b"", 10, ""),
    ],
)
def test_the_tail_holds_whole_lines_where_it_can(text: bytes, most: int, kept: str) -> None:
    assert last_lines(text, most) == kept


def test_the_tail_never_grows_beyond_its_limit() -> None:
    assert len(last_lines(b"\xff" * 10_000, 4096).encode()) <= 4096


CAUGHT = Exit(7, 0, None)
DOUBTS: list[tuple[str, End, str | None]] = [
    ("an ordinary end", End(code=0, tail="step 3\nsaved\n"), None),
    (
        "a pipe without pipefail",
        End(code=0, tail=TRACEBACK),
        "its last lines are an uncaught exception (ValueError: the labels are strings), whose exit code was hidden",
    ),
    (
        "noise of Python's end behind it",
        End(code=0, tail=f"{TRACEBACK}sys:1: ResourceWarning: x\n"),
        "uncaught exception",
    ),
    (
        "an exception that the program printed and survived",
        End(code=0, tail=TRACEBACK, exited=CAUGHT),
        "its last lines are an exception that the program itself caught (ValueError",
    ),
    ("an exception in the middle", End(code=0, tail=f"{TRACEBACK}step 4\nsaved\n"), None),
    (
        "a command that a shell did not find",
        End(code=0, tail="step 3\nbash: line 2: evaluate.sh: command not found\n"),
        "its last line is an error (bash: line 2: evaluate.sh: command not found), whose exit code was hidden",
    ),
    (
        "a program that it left running",
        End(code=0, tail="step 1\n", background=("python train.py",)),
        "1 of its processes still ran and was killed (python train.py): run the program in the foreground",
    ),
    (
        "several",
        End(code=0, tail="step 1\n", background=("python a.py", "sleep 9")),
        "2 of its processes still ran and were killed (python a.py)",
    ),
]


@pytest.mark.parametrize(("end", "said"), [row[1:] for row in DOUBTS], ids=[row[0] for row in DOUBTS])
@pytest.mark.parametrize("strict", [False, True])
def test_what_speaks_against_an_end_with_0_is_said_and_strict_makes_it_a_failure(
    end: End, said: str | None, strict: bool
) -> None:
    ended = decide(replace(end, strict=strict))
    if said is None:
        assert ended == Finished()
    elif strict:
        assert isinstance(ended, Failed)
        assert said in ended.reason
        assert ended.reason.endswith("(program.strict)")
    else:
        assert isinstance(ended, Finished)
        (but,) = ended.but
        assert said in but


def test_hosts_know_every_result_that_a_job_may_expect() -> None:
    assert set(FOLDERS_OF_RESULTS) == set(Result)


def test_a_command_that_the_image_lacks_is_the_programs_failure_with_advice() -> None:
    ended = decide(
        End(code=127, tail="container: train: command not found: it is in no folder of PATH (/bin)\n")
    )
    assert isinstance(ended, Failed)
    assert (ended.kind, ended.exit_code, ended.advised) == (FailureKind.PROGRAM, 127, True)
    assert "its last line: container: train: command not found" in ended.reason
    assert "name a command of the image" in ended.reason


def test_a_host_that_cannot_enter_the_image_fails_the_host_and_not_the_program() -> None:
    ended = decide(End(code=125, tail="container: this host cannot enter the image: no overlay\n"))
    assert ended == Failed(FailureKind.HOST, "this host cannot enter the image: no overlay", None)
    own = decide(End(code=125, tail="step 3\n"))
    assert isinstance(own, Failed)
    assert own.kind is FailureKind.PROGRAM


LOST = "the mount of data.train (s3://corpus/) has ended on this host"
MUTATED = "part-3.bin below s3://corpus/ was changed while this run read it"
DISCONNECTED = "OSError: [Errno 107] Transport endpoint is not connected"


@pytest.mark.parametrize(
    ("sentence", "end", "answer"),
    [
        ("its reads fail first", End(code=1, tail=DISCONNECTED, lost_mount=LOST), Stopped(StopReason.HANGS, LOST)),
        (
            "the agent asks first",
            End(code=143, tail="", asked=StopReason.HANGS, lost_mount=LOST),
            Stopped(StopReason.HANGS, LOST),
        ),
        (
            "it had finished",
            End(code=0, tail="", lost_mount=LOST),
            Finished(),
        ),
        (
            "EC2 takes the host back meanwhile",
            End(code=75, tail="", asked=StopReason.INTERRUPTED, lost_mount=LOST),
            Stopped(StopReason.INTERRUPTED),
        ),
        (
            "an object has changed",
            End(code=1, tail="OSError: [Errno 116] Stale file handle", changed_object=MUTATED),
            Failed(FailureKind.PROGRAM, MUTATED, 1, final=True, advised=True),
        ),
        ("the program read it again and finished", End(code=0, tail="", changed_object=MUTATED), Finished()),
    ],
)  # fmt: skip
def test_the_end_of_a_mount_is_no_fault_of_the_program_and_a_changed_object_is_final(
    sentence: str, end: End, answer: Finished | Stopped | Failed
) -> None:
    assert decide(end) == answer, sentence
