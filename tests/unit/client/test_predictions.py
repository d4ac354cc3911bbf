"""Requests for predictions from files of NumPy and of JSON."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainyard.cli.commands.request import Rows, parse_rows
from trainyard.client import arrays, predictions
from trainyard.client.errors import FileUnreadable
from trainyard.protocol.export import SignatureTypes, TensorType


def types(**inputs: TensorType) -> SignatureTypes:
    return SignatureTypes(inputs=inputs, outputs={})


def tensor(dtype: str, *shape: int | None) -> TensorType:
    return TensorType(dtype=dtype, shape=shape)


def written(folder: Path, **found: Any) -> Path:
    file = folder / "rows.npz"
    np.savez(file, **found)
    return file


PIXELS: Any = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)


@pytest.mark.parametrize(
    ("shape", "row"),
    [
        ((6,), [6, 7, 8, 9, 10, 11]),
        ((3, 2), [[6, 7], [8, 9], [10, 11]]),
        ((3, 2, 1), [[[6], [7]], [[8], [9]], [[10], [11]]]),
    ],
)
def test_rows_get_the_shape_of_the_signature(shape: tuple[int, ...], row: Any, tmp_path: Path) -> None:
    found = arrays.read(written(tmp_path, image=PIXELS, label=np.arange(4)), 1, 3)
    request = predictions.make_request("m", "s", types(image=tensor("float32", None, *shape)), found)
    assert request["signature_name"] == "s"
    assert len(request["instances"]) == 2
    assert np.array_equal(request["instances"][0], row)


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f8", "|b1", "|i1", "<i8", ">u4"])
def test_every_type_of_numpy_is_read_as_numpy_reads_it(dtype: str, tmp_path: Path) -> None:
    given: Any = np.arange(6).reshape(3, 2).astype(dtype)
    (found,) = arrays.read(written(tmp_path, x=given), 0, 9)
    assert [[*row] for row in found.rows] == given.tolist()


def test_an_array_of_another_name_serves_the_only_input_and_names_serve_several(tmp_path: Path) -> None:
    found = arrays.read(written(tmp_path, x_test=PIXELS, y_test=np.arange(4)), 0, 1)
    request = predictions.make_request("m", "s", types(image=tensor("float32", None, 6)), found, 255)
    assert request["instances"][0][1] == 1 / 255
    found = arrays.read(written(tmp_path, left=PIXELS, right=np.arange(4)), 0, 1)
    two = types(left=tensor("float32", None, 6), right=tensor("int64", None))
    request = predictions.make_request("m", "s", two, found)
    assert request["instances"] == [{"left": [0, 1, 2, 3, 4, 5], "right": 0}]


def test_a_free_length_keeps_the_length_of_the_file(tmp_path: Path) -> None:
    found = arrays.read(written(tmp_path, tokens=np.arange(6).reshape(2, 3)), 0, 1)
    request = predictions.make_request("m", "s", types(tokens=tensor("int32", None, None)), found)
    assert json.dumps(request["instances"]) == "[[0, 1, 2]]"


def test_integers_up_to_255_are_mentioned(tmp_path: Path) -> None:
    found = arrays.read(written(tmp_path, image=np.full((2, 6), 255, np.uint8)), 0, 1)
    (line,) = predictions.unscaled(types(image=tensor("float32", None, 6)), found)
    assert "--divide 255" in line
    assert predictions.unscaled(types(image=tensor("uint8", None, 6)), found) == []


@pytest.mark.parametrize(
    ("given", "rows", "said"),
    [
        ({"a": PIXELS, "b": PIXELS}, (0, 1), "the file has a 4x3x2, b 4x3x2, and none for image"),
        ({"image": PIXELS[:, :2]}, (0, 1), "the signature wants image with rows of 6"),
        ({"image": PIXELS}, (7, 9), "the file has no such rows: it has image 4x3x2"),
        ({"names": np.array(["a", "b"])}, (0, 1), "the file has no arrays of numbers"),
        ({"image": np.asfortranarray(PIXELS)}, (0, 1), "Fortran order"),
    ],
)
def test_a_file_without_such_rows_is_refused(
    given: Mapping[str, Any], rows: tuple[int, int], said: str, tmp_path: Path
) -> None:
    file, of = written(tmp_path, **given), types(image=tensor("float32", None, 6))
    with pytest.raises(FileUnreadable) as refused:
        predictions.make_request("m", "s", of, arrays.read(file, *rows))
    assert said in str(refused.value)


def cut_off() -> bytes:
    content = io.BytesIO()
    np.savez(content, image=PIXELS)
    return content.getvalue()[:-40]


@pytest.mark.parametrize("content", [b"", b"no zip", cut_off()])
def test_a_broken_file_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "rows.npz"
    file.write_bytes(content)
    with pytest.raises(FileUnreadable, match=r"cannot be read as \.npz"):
        arrays.read(file, 0, 1)


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ('{"instances": [[1, 2]]}', {"instances": [[1, 2]]}),
        ('{\n "inputs": {"x": 1}\n}', {"inputs": {"x": 1}}),
        ("[1, 2]\n\n[3, 4]\n", {"instances": [[1, 2], [3, 4]]}),
        ("[1, 2]", {"instances": [[1, 2]]}),
        ('{"left": 1}\n{"left": 2}', {"instances": [{"left": 1}, {"left": 2}]}),
        ('{"left": 1}', {"instances": [{"left": 1}]}),
    ],
)
def test_a_request_is_an_object_or_one_instance_a_line(text: str, document: dict[str, Any]) -> None:
    assert predictions.read_instances("request.json", text) == document


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "request.json is empty"),
        (" \n ", "request.json is empty"),
        ("[1, 2]\n[3, 4", "line 2, column 6"),
        ("[1]\noops", "line 2, column 1"),
        (f"{'[' * 10_000}{']' * 10_000}", "line 1: lists in lists that are too deep"),
    ],
)
def test_a_line_that_is_not_json_is_named(text: str, said: str) -> None:
    with pytest.raises(FileUnreadable) as refused:
        predictions.read_instances("request.json", text)
    assert said in str(refused.value)


@pytest.mark.parametrize(("text", "rows"), [("0:3", (0, 3)), ("7", (7, 8)), (":2", (0, 2))])
def test_rows_are_a_range_or_one(text: str, rows: tuple[int, int]) -> None:
    assert parse_rows(text) == Rows(*rows)


@pytest.mark.parametrize("text", ["3:3", "5:2", "a:b", "-1", "1:2:3"])
def test_rows_that_are_no_range_are_refused(text: str) -> None:
    with pytest.raises(Exception, match=r"such as 0:3|has no rows"):
        parse_rows(text)
