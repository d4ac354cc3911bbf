"""The reference programs, run as on hosts, reach the results that their pages promise and refuse bad input."""

import gzip
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.training.parameter_servers import gang
from tests.training.processes import start
from tests.training.programs import started
from training.programs.datasets import idx, keras_text, reviews
from training.programs.datasets import mnist as mnist_data
from training.programs.datasets.digits import write_shards
from training.programs.matmul import PRECISIONS, Factors, Shape, largest_error

PROGRAMS = Path(__file__).parents[2] / "training" / "programs"
STEP_LINE = re.compile(
    r"^Step: (\d+),  Epoch: (\d+),  Batch: (\d+) of (\d+),  Cost: \d+\.\d+,  AvgTime: \d+\.\d+ ms$",
    re.MULTILINE,
)
LAST_LINES = re.compile(
    r"^Test-Accuracy: (\d\.\d+)\nTotal Time: \d+\.\d+ s\nFinal Cost: \d+\.\d+$", re.MULTILINE
)
TRAIN_DIGITS, TEST_DIGITS = 7190, 359
EPOCHS = 5
WITH_STALE_GRADIENTS = 0.8
"""The lowest accuracy of a model whose workers do not wait for each other. On a busy machine, gradients come from
older weights (0.88 was observed beside five other processes)."""
MNIST_ARGS = {"epochs": str(EPOCHS), "learning-rate": "1.0", "checkpoint-every": "100"}


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mnist")
    mnist_data.write_idx(folder)
    return folder


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    mnist_data.write_tfrecords(folder)
    return folder


@pytest.fixture(scope="session")
def sentiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sentiment")
    keras_text.write_archive(folder)
    return folder


def alone(name: str, *args: str, folder: Path, told: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a program by hand, without a cluster. Return its exit code and output."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("TRAINYARD_")}
    folder.mkdir(parents=True, exist_ok=True)
    environment = own | {"PYTHONPATH": str(PROGRAMS.parents[1])} | dict(told or {})
    log = folder / "words.log"
    code = start(["-m", f"training.programs.{name}", *args], environment, folder, log).wait(180)
    return code, log.read_text()


def metrics_in(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "metrics.json").read_text())
    return found


def scalars_in(folder: Path) -> set[str]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return set(events.Tags()["tensors"])


# --- matmul
def test_matmul_measures_checks_and_says_where_the_product_lies(tmp_path: Path) -> None:
    code, said = alone("matmul", "--size", "96x64x32", "--device", "cpu:0,/device:CPU:0", folder=tmp_path)
    assert code == 0, said
    assert said.count("product placed on /job:localhost/replica:0/task:0/device:CPU:0") == 2
    assert "Products right on 2 of 2 devices" in said
    found = metrics_in(tmp_path / "training-output")
    assert (found["rows"], found["summed"], found["columns"]) == (96, 64, 32)
    assert len(found["devices"]) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_a_right_product_is_within_the_tolerance_and_one_wrong_number_is_not(dtype: str) -> None:
    precision, shape = PRECISIONS[dtype], Shape(64, 256, 48)
    factors = Factors.draw_values(shape, precision, seed=3)
    product = tf.linalg.matmul(*(tf.constant(one, precision.name) for one in (factors.left, factors.right)))
    assert largest_error(product, factors) <= precision.tolerance(shape.summed)
    wrong = tf.cast(product, tf.float64).numpy()
    wrong[5, 7] += 0.05 * float(np.abs(factors.left[5]) @ np.abs(factors.right[:, 7]))
    assert largest_error(tf.constant(wrong), factors) > precision.tolerance(shape.summed)
    wrong[5, 7] = np.nan
    assert largest_error(tf.constant(wrong), factors) == np.inf


@pytest.mark.parametrize(
    ("args", "code", "reason"),
    [
        (["--device", "/GPU:3"], 1, "there is no /GPU:3 on this host; it has /CPU:0"),
        (["--every-gpu"], 1, "TensorFlow sees no GPU on this host"),
        (["--size", "3x4"], 2, "'3x4' is not a size"),
        (["--size", "0"], 2, "'0' is not a size"),
        (["--repeats", "0"], 2, "'0' is not a whole number of at least 1"),
        (["--dtype", "int4"], 2, "invalid choice: 'int4'"),
    ],
)
@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="asks for GPUs that are not there")
def test_matmul_refuses_what_it_cannot_do(args: list[str], code: int, reason: str, tmp_path: Path) -> None:
    ended, said = alone("matmul", *args, folder=tmp_path)
    assert ended == code
    assert reason in said
    assert "Traceback" not in said


# --- replicate
def test_the_joined_product_equals_the_unsplit_one(tmp_path: Path) -> None:
    code, said = alone(
        "replicate", "--stand-ins", "3", "--rows", "100", "--devices", "/CPU:0,/CPU:1,/CPU:2", folder=tmp_path
    )
    assert code == 0, said
    for rows, device in ((34, 0), (33, 1), (33, 2)):
        assert f"{rows} rows multiplied on /job:localhost/replica:0/task:0/device:CPU:{device}" in said
    found = metrics_in(tmp_path / "training-output")
    assert found["devices"] == ["/CPU:0", "/CPU:1", "/CPU:2"]
    assert float(str(found["difference"])) <= float(str(found["tolerance"]))


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--rows", "1", "--devices", "/CPU:0,/CPU:1"], "1 rows cannot be split over 2 devices"),
        (["--devices", "/CPU:0,/CPU:7"], "there is no /CPU:7 on this host"),
        (["--tolerance", "-1"], "more than -1.0e+00"),
    ],
)
def test_replicate_refuses_what_it_cannot_promise(args: list[str], reason: str, tmp_path: Path) -> None:
    code, said = alone("replicate", *args, folder=tmp_path)
    assert code == 1
    assert reason in said


# --- mnist
@pytest.mark.parametrize(
    ("strategy", "members"),
    [("single", {}), ("mirrored", {}), ("multi_worker", {"worker": 2, "evaluator": 1})],
)
def test_mnist_is_learnt_in_step(
    strategy: str, members: dict[str, int], digits: Path, records: Path, tmp_path: Path
) -> None:
    """The data are IDX files, or TFRecords under `mirrored`. Several workers have an evaluator."""
    told = {"TRAINYARD_DATA_MNIST": str(digits)}
    if strategy == "mirrored":
        told = {f"TRAINYARD_DATA_{part}": str(records / part.lower()) for part in ("TRAIN", "TEST")}
    with started(
        PROGRAMS / "mnist.py",
        tmp_path,
        digits,
        strategy=strategy,
        members=members,
        told=told,
        args=MNIST_ARGS,
    ) as processes:
        codes = [process.wait() for process in processes.values()]
        chief = next(iter(processes.values()))
    assert set(codes) == {0}, chief.log.read_text()
    accuracy = check_words(chief.log.read_text(), per_epoch=TRAIN_DIGITS // 100)
    check_results(tmp_path, digits, accuracy=accuracy)
    if "evaluator" in members:
        last = processes["evaluator-0"].log.read_text()
        assert f"evaluation at step {EPOCHS * (TRAIN_DIGITS // 100)}: " in last
        assert f"accuracy {accuracy:.4f}" in last
        evaluated = scalars_in(tmp_path / "tensorboard" / "evaluation")
        assert {"evaluation/loss", "evaluation/accuracy"} <= evaluated


def test_mnist_is_learnt_by_workers_at_their_own_pace_while_an_evaluator_looks(
    digits: Path, tmp_path: Path
) -> None:
    line = [word for key, value in MNIST_ARGS.items() for word in (f"--{key}", value)]
    with gang("training.programs.mnist", tmp_path, {"mnist": digits}, args=line, evaluators=1) as processes:
        codes = processes.codes()
    said = processes.chief.log.read_text()
    assert set(codes) == {0}, said
    accuracy = check_words(said, per_epoch=TRAIN_DIGITS // 50)
    check_results(tmp_path, digits, accuracy=accuracy, at_least=WITH_STALE_GRADIENTS)
    evaluated = scalars_in(tmp_path / "tensorboard" / "evaluation")
    assert {"evaluation/loss", "evaluation/accuracy"} <= evaluated


def check_words(said: str, *, per_epoch: int) -> float:
    """Check that the lines have the usual format. Return their accuracy."""
    lines = [tuple(map(int, found)) for found in STEP_LINE.findall(said)]
    assert lines[-1] == (EPOCHS * per_epoch, EPOCHS, per_epoch, per_epoch)
    assert [line[0] for line in lines] == sorted({line[0] for line in lines})
    found = LAST_LINES.search(said)
    assert found, said
    return float(found[1])


def check_results(folder: Path, digits: Path, *, accuracy: float, at_least: float = 0.9) -> None:
    assert accuracy > at_least
    assert metrics_in(folder)["accuracy"] == pytest.approx(accuracy, abs=1e-4)
    assert {"train/loss", "train/accuracy"} <= scalars_in(folder / "tensorboard")
    check_model(folder / "model", digits, accuracy=accuracy)


def check_model(folder: Path, digits: Path, *, accuracy: float) -> None:
    """Check that the signatures agree with each other, and reach the program's accuracy on the test digits."""
    signatures = tf.saved_model.load(str(folder)).signatures
    assert set(signatures) == {"serving_default", "predict", "classify"}
    test = idx.read_part(digits, idx.TEST)
    images = tf.constant(test.images)
    logits = signatures["serving_default"](images=images)["outputs"].numpy()
    assert (logits.argmax(axis=1) == test.labels).mean() == pytest.approx(accuracy, abs=1e-4)
    probabilities = signatures["predict"](images=images)["probabilities"].numpy()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    classes = signatures["classify"](images=images)["classes"].numpy()
    np.testing.assert_array_equal(classes[:, 0], logits.argmax(axis=1))


def test_mnist_data_are_the_same_every_time_and_no_test_digit_is_learnt_from(
    digits: Path, tmp_path: Path
) -> None:
    mnist_data.write_idx(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        assert path.read_bytes() == (digits / path.name).read_bytes()
    train, test = (idx.read_part(digits, part) for part in (idx.TRAIN, idx.TEST))
    assert (train.images.shape, test.images.shape) == ((TRAIN_DIGITS, 784), (TEST_DIGITS, 784))
    known = {cropped(image) for image in train.images}
    assert not known & {cropped(image) for image in test.images}


def cropped(image: np.ndarray) -> bytes:
    """Return the digit without its black border, so that a shifted one is recognized."""
    square = image.reshape(28, 28)
    rows, columns = (np.flatnonzero(square.any(axis=axis)) for axis in (1, 0))
    return bytes(square[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].tobytes())


def test_plain_idx_files_with_a_dot_in_their_name_are_read_too(digits: Path, tmp_path: Path) -> None:
    for path in digits.iterdir():
        plain = path.stem.replace("-idx", ".idx")
        (tmp_path / plain).write_bytes(gzip.decompress(path.read_bytes()))
    for part in (idx.TRAIN, idx.TEST):
        np.testing.assert_array_equal(
            idx.read_part(tmp_path, part).images, idx.read_part(digits, part).images
        )


IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


def spoilt(folder: Path, how: str) -> None:
    """Damage a copy of the IDX files in a typical way."""
    images, labels = folder / IMAGES, folder / LABELS
    match how:
        case "missing":
            labels.unlink()
        case "cut":
            images.write_bytes(images.read_bytes()[:-1000])
        case "cut before it was zipped":
            images.write_bytes(gzip.compress(gzip.decompress(images.read_bytes())[:-784]))
        case "swapped":
            images.rename(folder / "other")
            labels.rename(images)
            (folder / "other").rename(labels)
        case "no idx":
            images.write_bytes(b"<html>404 Not Found</html>")
        case "of two sets":
            shutil.copy(folder / "t10k-labels-idx1-ubyte.gz", labels)
        case "letters":
            idx.write(labels, (idx.read(labels) + 20).astype(np.uint8))
        case "larger":
            idx.write(images, np.zeros((TRAIN_DIGITS, 32, 32), np.uint8))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("missing", "there is no train-labels-idx1-ubyte"),
        ("cut", "is not a whole gzip file"),
        ("cut before it was zipped", "is not a whole IDX file"),
        ("swapped", "are they swapped?"),
        ("no idx", "is not an IDX file"),
        ("of two sets", "they do not belong together"),
        ("letters", "labels from 20 to 29"),
        ("larger", "images of 1024 pixels"),
    ],
)
def test_spoilt_idx_files_get_a_clear_reason(how: str, reason: str, digits: Path, tmp_path: Path) -> None:
    from training.programs import mnist

    folder = shutil.copytree(digits, tmp_path / "mnist")
    spoilt(folder, how)
    with pytest.raises(SystemExit, match=re.escape(reason)):
        mnist.arrays(folder, idx.TRAIN)


def test_records_of_another_size_are_refused(tmp_path: Path) -> None:
    from training.programs import mnist

    write_shards(tmp_path)
    with pytest.raises(SystemExit, match="has images of 64 bytes"):
        mnist.records(tmp_path / "train")


def test_a_step_that_crossing_updates_read_twice_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    from training.programs import mnist
    from trainyard.runtime.plan import Step

    diary = mnist.Diary(frequency=100)
    for step in (285, 286, 286, 285):
        diary.note(Step(step, 286, 2, step - 143, 143, 0.5, 0.9))
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["Step: 285", "Step: 286"]


def test_mnist_without_data_says_what_it_needs(tmp_path: Path) -> None:
    code, said = alone("mnist", folder=tmp_path)
    assert code == 1
    assert "this program needs data.mnist" in said


# --- keras_text
def test_sentiment_is_learnt_and_the_model_takes_texts(sentiment: Path, tmp_path: Path) -> None:
    with started(
        PROGRAMS / "keras_text.py",
        tmp_path,
        sentiment,
        strategy="single",
        members={},
        told={"TRAINYARD_DATA_REVIEWS": str(sentiment)},
        args={"epochs": "6"},
    ) as processes:
        (alone_there,) = processes.values()
        assert alone_there.wait() == 0, alone_there.log.read_text()
    assert float(str(metrics_in(tmp_path)["accuracy"])) > 0.8
    assert {"train/loss", "train/accuracy"} <= scalars_in(tmp_path / "tensorboard")
    classify = tf.saved_model.load(str(tmp_path / "model")).signatures["classify"]
    texts = tf.constant(["A brilliant, witty and moving film.<br />Superb!", "Boring, clumsy and awful."])
    assert classify(texts=texts)["classes"].numpy()[:, 0].tolist() == [1, 0]


def test_reviews_are_the_same_from_folders_and_from_an_archive(sentiment: Path, tmp_path: Path) -> None:
    keras_text.write_files(tmp_path)
    found = reviews.read(tmp_path)
    assert found == reviews.read(sentiment)
    assert {part: len(set(texts.texts)) > 0.9 * texts.count for part, texts in found.items()} == {
        "train": True,
        "test": True,
    }


def test_test_reviews_have_words_and_sentences_of_their_own() -> None:
    corpus = keras_text.corpus()
    learnt, evaluated = (
        {word for name, text in corpus.items() if name.startswith(part) for word in re.findall(r"\w+", text)}
        for part in ("train", "test")
    )
    assert {"fresh", "stale", "soundtrack", "script"} <= evaluated - learnt


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: shutil.rmtree(folder / "test" / "neg"), "there is no test/neg/*.txt"),
        (
            lambda folder: (folder / "train/pos/00000.txt").write_bytes(b"\xff\xfe"),
            "is not UTF-8 text (byte 0)",
        ),
        (lambda folder: (folder / "more.tar.gz").write_bytes(b"no tar"), "is not a whole tar archive"),
    ],
)
def test_spoilt_reviews_get_a_clear_reason(spoil: object, reason: str, tmp_path: Path) -> None:
    keras_text.write_files(tmp_path)
    assert callable(spoil)
    spoil(tmp_path)
    with pytest.raises(SystemExit, match=re.escape(reason)):
        reviews.read(tmp_path)


def test_keras_text_refuses_parameter_servers(sentiment: Path, tmp_path: Path) -> None:
    told = {"TRAINYARD_STRATEGY": "parameter_server", "TRAINYARD_DATA_REVIEWS": str(sentiment)}
    code, said = alone("keras_text", folder=tmp_path, told=told)
    assert code == 1
    assert "cannot be resumed with parameter servers" in said
