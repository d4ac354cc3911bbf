"""Requests for predictions: each malformed one has its own sentence, with the place, what was found, what is wanted."""

import json
from typing import Any

import pytest

from trainyard.core.prediction import body
from trainyard.core.prediction.tensors import FaultError
from trainyard.protocol.export import SignatureTypes, TensorType


def types(**inputs: TensorType) -> SignatureTypes:
    return SignatureTypes(inputs=inputs, outputs={"y": TensorType(dtype="float32", shape=(None, 2))})


def tensor(dtype: str, *shape: int | None) -> TensorType:
    return TensorType(dtype=dtype, shape=shape)


PIXELS = types(image=tensor("float32", None, 3))
TWO = types(left=tensor("float32", None, 2), right=tensor("int64", None))
TOKENS = types(tokens=tensor("int32", None, None))
BYTES = types(picture=tensor("string", None))
FLAG = types(flag=tensor("bool", None))
BYTE = types(pixel=tensor("uint8", None))
SCALAR = types(x=tensor("float32"))
ANY_RANK = types(x=TensorType(dtype="float32", shape=None))
FIXED = types(x=tensor("float32", 1, 2))
ROW = [0.0, 0.5, 1.0]

FAULTS: list[tuple[str, SignatureTypes, str, str]] = [
    ("empty", PIXELS, " \n", "the request is empty"),
    ("not JSON", PIXELS, '{"instances":\n [1, oops]}', "line 2, column 6"),
    ("a list", PIXELS, "[[0, 0, 0]]", "the request is a list of 1 list; wanted an object with instances"),
    ("a number", PIXELS, "7", "the request is 7; wanted an object"),
    ("neither", PIXELS, "{}", "neither instances nor inputs"),
    ("both", PIXELS, '{"instances": [], "inputs": []}', "both instances and inputs"),
    ("a misspelt key", PIXELS, '{"instance": [[0, 0, 0]]}', 'did you mean "instances"?'),
    ("instances is an object", PIXELS, '{"instances": {}}', "instances: found an object with no keys"),
    ("no instances", PIXELS, '{"instances": []}', "instances: found an empty list; wanted a list of rows"),
    ("no columns", PIXELS, '{"inputs": []}', "inputs: found no rows; wanted at least one"),
    ("a short row", PIXELS, '{"instances": [[0, 0, 0], [0, 0]]}', "[1]: found a list of 2 numbers; wanted 3"),
    ("a long row", PIXELS, '{"instances": [[0, 0, 0, 0]]}', "instances[0]: found a list of 4 numbers; wanted 3"),
    ("a named row", PIXELS, '{"instances": [{"image": [0]}]}', "[0].image: found a list of 1 number; wanted 3"),
    ("a flat row", PIXELS, '{"instances": [0, 0, 0]}', "instances[0]: found 0; wanted a list of 3"),
    ("a nested row", PIXELS, '{"instances": [[[0], [0], [0]]]}', "[0][0]: found a list of 1 number; wanted a number"),
    ("a short column", PIXELS, '{"inputs": {"image": [[0, 0]]}}', "inputs.image[0]: found a list of 2 numbers"),
    ("ragged", TOKENS, '{"instances": [[1, 2], [1]]}', "instances[1]: found a list of 1 number; wanted 2"),
    ("text for a number", PIXELS, '{"instances": [[0, "a", 0]]}', '[0][1]: found the text "a"; wanted a number'),
    ("a boolean for a number", PIXELS, '{"instances": [[0, true, 0]]}', "[0][1]: found true; wanted a number"),
    ("null", PIXELS, '{"instances": [[0, null, 0]]}', "instances[0][1]: found null; wanted a number"),
    ("NaN", PIXELS, '{"instances": [[0, NaN, 0]]}', "the request has NaN; wanted finite numbers"),
    ("infinity", PIXELS, '{"instances": [[0, -Infinity, 0]]}', "the request has -Infinity"),
    ("1e400", PIXELS, '{"instances": [[0, 1e400, 0]]}', "instances[0][1]: found inf; wanted a finite number"),
    ("1e39 for float32", PIXELS, '{"instances": [[0, 1e39, 0]]}', "found 1e+39; wanted a finite number of this type"),
    ("a huge integer", PIXELS, f'{{"instances": [[0, 1{"0" * 400}, 0]]}}', "found a number of 401 digits"),
    ("a number for text", BYTES, '{"instances": [5]}', "instances[0]: found 5; wanted a text, or"),
    ("invalid base64", BYTES, '{"instances": [{"b64": "A"}]}', '[0].b64: found the text "A"; wanted base64'),
    ("base64 of a number", BYTES, '{"instances": [{"b64": 5}]}', "instances[0]: found an object with b64"),
    ("a number for a boolean", FLAG, '{"instances": [1]}', "instances[0]: found 1; wanted true or false"),
    ("a float for an integer", BYTE, '{"instances": [3.5]}', "instances[0]: found 3.5; wanted an integer"),
    ("too large an integer", BYTE, '{"instances": [256]}', "[0]: found 256; wanted an integer from 0 to 255"),
    ("a negative integer", BYTE, '{"instances": [-1]}', "instances[0]: found -1; wanted an integer from 0 to 255"),
    ("one key too few", TWO, '{"instances": [{"left": [1, 2]}]}', "[0]: missing right; wanted left, right"),
    ("one key too many", TWO, '{"instances": [{"left": [1, 2], "right": 1, "rigth": 1}]}', 'did you mean "right"?'),
    ("a row without names", TWO, '{"instances": [[1, 2]]}', "[0]: found a list of 2 numbers; wanted an object"),
    ("columns without names", TWO, '{"inputs": [[1, 2]]}', "inputs: found a list of 1 list; wanted an object"),
    ("unequal columns", TWO, '{"inputs": {"left": [[1, 2]], "right": [1, 2]}}', "inputs.right: found 2 rows"),
    ("rows for a scalar", SCALAR, '{"instances": [1]}', "instances: the input x has no rows"),
    ("a list for a scalar", SCALAR, '{"inputs": [1]}', "inputs: found a list of 1 number; wanted a number"),
    ("two rows for a batch of 1", FIXED, '{"instances": [[1, 2], [1, 2]]}', "found a list of 2 lists; wanted 1"),
    ("ragged, any rank", ANY_RANK, '{"inputs": [[1, 2], [1]]}', "inputs[1]: found a list of 1 number; wanted 2"),
    ("10,000 levels", PIXELS, f'{{"instances": {"[" * 10_000}{"]" * 10_000}}}', "too deep for any tensor"),
    ("900 levels", PIXELS, f'{{"instances": {"[" * 900}{"]" * 900}}}', "[0]: found a list of 1 list; wanted 3"),
]  # fmt: skip


def read(text: str, of: SignatureTypes) -> body.Inputs:
    return body.read(body.parse(text), of)


@pytest.mark.parametrize(("of", "text", "said"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_malformed_request_is_refused_with_place_and_wanted(
    of: SignatureTypes, text: str, said: str
) -> None:
    with pytest.raises(FaultError) as fault:
        read(text, of)
    assert said in str(fault.value)
    assert len(str(fault.value)) < 300


@pytest.mark.parametrize(
    ("of", "request_", "tensors", "rows"),
    [
        (PIXELS, {"instances": [ROW, ROW]}, {"image": [ROW, ROW]}, 2),
        (PIXELS, {"instances": [{"image": ROW}]}, {"image": [ROW]}, 1),
        (PIXELS, {"instances": [[1, 2, 3]]}, {"image": [[1, 2, 3]]}, 1),
        (PIXELS, {"inputs": [ROW]}, {"image": [ROW]}, 1),
        (PIXELS, {"inputs": {"image": [ROW]}, "signature_name": "a"}, {"image": [ROW]}, 1),
        (TWO, {"instances": [{"left": [1, 2], "right": 3}]}, {"left": [[1, 2]], "right": [3]}, 1),
        (TWO, {"inputs": {"left": [[1, 2]], "right": [3]}}, {"left": [[1, 2]], "right": [3]}, 1),
        (BYTES, {"instances": ["a", {"b64": "Yg=="}, {"picture": "c"}]}, {"picture": [b"a", b"b", b"c"]}, 3),
        (BYTES, {"instances": [{"picture": {"b64": "Yg=="}}]}, {"picture": [b"b"]}, 1),
        (FLAG, {"instances": [True]}, {"flag": [True]}, 1),
        (SCALAR, {"inputs": 2}, {"x": 2}, None),
        (FIXED, {"instances": [[1, 2]]}, {"x": [[1, 2]]}, None),
        (ANY_RANK, {"inputs": [[1, 2], [3, 4]]}, {"x": [[1, 2], [3, 4]]}, None),
    ],
)
def test_a_request_in_rows_or_columns_becomes_tensors(
    of: SignatureTypes, request_: dict[str, Any], tensors: dict[str, Any], rows: int | None
) -> None:
    found = read(json.dumps(request_), of)
    assert (found.tensors, found.rows) == (tensors, rows)


def v2(**changed: Any) -> dict[str, Any]:
    return {"name": "image", "shape": [2, 3], "datatype": "FP32", "data": [0, 1, 2, 3, 4, 5]} | changed


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([], "inputs: found an empty list; wanted a list of tensors"),
        ([v2(name="imge")], 'inputs: found the key the text "imge"; wanted image; did you mean "image"?'),
        ([v2(datatype="FP64")], 'inputs[0].datatype: found the text "FP64"; wanted FP32'),
        ([v2(data=[0])], "inputs[0].data: found a list of 1 number; wanted 6, as its shape [2, 3] has"),
        ([v2(shape=[2, -3])], "inputs[0].shape: found a list of 2 numbers; wanted a list of integers"),
        ([v2(shape=[6])], "inputs[0].data, element [0]: found 0; wanted a list of 3"),
        ([v2(data=[[0, 1, 2], [0, "a", 2]])], 'inputs[0].data[1][1]: found the text "a"; wanted a number'),
        ([{**v2(parameters={"binary_data_size": 24}), "data": None}], "inputs[0].data: found null"),
        ([{"name": "image", "parameters": {"binary_data_size": 24}}], "binary_data=False"),
    ],
)
def test_a_malformed_request_of_v2_is_refused(inputs: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(FaultError) as fault:
        body.read_v2({"inputs": inputs}, PIXELS)
    assert said in str(fault.value)


@pytest.mark.parametrize("data", [[0, 1, 2, 3, 4, 5], [[0, 1, 2], [3, 4, 5]]])
def test_a_request_of_v2_is_flat_or_nested(data: list[Any]) -> None:
    found = body.read_v2({"inputs": [v2(data=data)]}, PIXELS)
    assert found.tensors == {"image": [[0, 1, 2], [3, 4, 5]]}
