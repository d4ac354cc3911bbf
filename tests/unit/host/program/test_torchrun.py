"""The output of torchrun at its end: from torch 2.13, and with NCCL on a GPU from torch 2.11."""

import pytest

from training.host.program.ending import End, Failed, Stopped, decide
from training.host.program.torchrun import unwrap
from trainyard.protocol.signals import StopReason

ASKED = "[trainyard] asking the program to leave: interrupted\n"
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/srv/venv/bin/torchrun", line 8, in <module>\n'
    "    sys.exit(main())\n"
)


def failed(said: str, code: str) -> str:
    return (
        f"step 210 loss 0.2258\n{said}"
        "E1125 02:14:24.398000 3687 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "
        f"local_rank: 0 (pid: 4034) of binary: python\n{TRACE}"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "============================================================\n"
        "train.py FAILED\n"
        "Failures:\n"
        "  <NO_OTHER_FAILURES>\n"
        "Root Cause (first observed failure):\n"
        "[0]:\n"
        "  time      : 2026-11-25_02:14:24\n"
        "  rank      : 0 (local_rank: 0)\n"
        f"  exitcode  : {code} (pid: 4034) \n"
        "  error_file: <N/A>\n"
        "============================================================\n"
    )


def signalled(said: str, warning: str = "") -> str:
    return (
        f"{ASKED}W1125 02:09:14 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, "
        f"shutting down workers\n{said}{warning}{TRACE}"
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 22527 got signal: 15\n"
    )


OWN = "[rank0]: Traceback (most recent call last):\n[rank0]: ValueError: the labels are strings\n"
GLOO = (
    "[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[10.0.1.6]:20632. This is typically caused by a remote worker crashing.\n"
)
NO_STORE = (
    "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. "
    "See inner exception for details.\n"
)
IN_USE = (
    "[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    "port: 29500, EADDRINUSE\n"
)
FORCED = "W1125 api.py:891] Unable to shutdown process 5 via 15, forcefully exiting via 9\n"
JAX_GONE = (
    "jax.errors.JaxRuntimeError: UNKNOWN: Gloo AllGather failed: [external/gloo/gloo/transport/tcp/pair.cc:538] Read "
    "error [10.0.1.6]:21416: Connection reset by peer\n"
)
JAX_ABORT = (
    "F1125 02:16:27.822166    6198 client.h:80] Terminating process because the JAX distributed service detected fatal "
    "errors. This most likely indicates that another task died\n"
)
NCCL = (
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated with exception: {}\n"
    "Exception raised from run at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2125 (most recent call "
    "first):\nframe #4: <unknown function> + 0x129ecc (0x7f011b129ecc in /lib/x86_64-linux-gnu/libc.so.6)\n"
)
NCCL_GONE = NCCL.format(
    "NCCL error: remote process exited or there was a network error, NCCL version 2.28.9\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    "Last error:\nsocketProgress: Connection closed by remote peer localhost<59422>"
)
NCCL_WAITED = NCCL.format(
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=20, OpType=ALLREDUCE, NumelIn=1048576, "
    "NumelOut=1048576, Timeout(ms)=20000) ran for 20058 milliseconds before timing out."
)
NCCL_INTERNAL = (
    "[rank0]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:93"
    ", internal error - please report this issue to the NCCL developers, NCCL version 2.18.3\n"
    "[rank0]: ncclInternalError: Internal check failed.\n[rank0]: Last error:\n[rank0]: {}\n"
)
NCCL_SOCKET = NCCL_INTERNAL.format("Socket recv failed while polling for opId=0x7f4774cc9620")
NCCL_CUDA = NCCL_INTERNAL.format("Cuda failure 'invalid argument'")


def ended(code: int, tail: str, asked: StopReason | None = None, *, gang: int = 2) -> End:
    own, said = unwrap(code, tail)
    return End(code=own, tail=said, asked=asked, gang=gang)


@pytest.mark.parametrize(
    ("sentence", "end", "why"),
    [
        ("its process wants to be started again", ended(1, failed("", "75")), "peer"),
        ("a peer closed gloo's connection", ended(1, failed(GLOO, "1")), "peer"),
        ("the host of the store is gone", ended(1, NO_STORE), "peer"),
        ("a peer closed NCCL's connection", ended(134, NCCL_GONE), "peer"),
        ("so it did below torchrun", ended(1, failed(NCCL_GONE, "-6")), "peer"),
        ("NCCL waited for a peer in vain", ended(134, NCCL_WAITED), "peer"),
        ("a peer has gone while NCCL connected", ended(1, failed(NCCL_SOCKET, "1")), "peer"),
        ("told to leave while a peer was gone", ended(134, NCCL_GONE, StopReason.ASKED), "asked"),
        (
            "told to leave, its process left",
            ended(1, signalled("rank 1 leaves\n"), StopReason.INTERRUPTED),
            "interrupted",
        ),
        (
            "told to leave, it had to kill",
            ended(1, signalled("", FORCED), StopReason.INTERRUPTED),
            "interrupted",
        ),
        ("asked to leave from outside", ended(1, signalled("")), "peer"),
        ("JAX misses a peer", ended(1, JAX_GONE), "peer"),
        ("JAX ends its process for a peer", ended(134, JAX_ABORT), "peer"),
    ],
)
def test_an_end_that_is_no_fault_of_the_programs(sentence: str, end: End, why: str) -> None:
    assert decide(end) == Stopped(StopReason(why)), sentence


@pytest.mark.parametrize(
    ("sentence", "end", "reason"),
    [
        ("its process' exception", ended(1, failed(OWN, "1")), "exit code 1: ValueError: the labels are strings"),
        ("its process' exit code", ended(1, failed("", "3")), "exit code 3 and printed no exception"),
        ("a single host has no peer", ended(1, failed(GLOO, "1"), gang=1), "exit code 1: RuntimeError: "),
        ("nor for NCCL", ended(134, NCCL_GONE, gang=1), "SIGABRT after: ncclRemoteError"),
        ("NCCL's own trouble", ended(1, failed(NCCL_CUDA, "1")), "ncclInternalError: Internal check failed"),
        ("a port in use", ended(1, failed(IN_USE, "1")), "DistNetworkError"),
    ],
)  # fmt: skip
def test_the_programs_own_failure_is_told_from_below_torchruns(sentence: str, end: End, reason: str) -> None:
    said = decide(end)
    assert isinstance(said, Failed), sentence
    assert reason in said.reason


@pytest.mark.parametrize(("warning", "is_whole"), [("", True), (FORCED, False)])
def test_what_it_saved_last_is_whole_unless_torchrun_killed_it(warning: str, is_whole: bool) -> None:
    assert ended(1, signalled("saved\n", warning), StopReason.INTERRUPTED).is_whole is is_whole


def test_what_torchrun_did_not_end_is_as_it_was() -> None:
    assert unwrap(1, OWN) == (1, OWN)
    assert unwrap(0, failed(OWN, "1")) == (0, failed(OWN, "1"))
