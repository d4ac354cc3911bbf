"""Freeze a signature: its variables become constants, and its batch 1 if that is requested.

Retracing a loaded signature is not enough for a batch of 1: a recurrent layer's lists of tensors keep the free batch in
a constant of the graph. Golden rows prove the result.
"""

from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

ELEMENT_SHAPE = {"TensorListReserve": 0, "TensorListFromTensor": 1, "TensorListStack": 1}
"""The input of an operation that has the shape of a list's elements."""


def freeze(function: Any, *, one_row: bool = False) -> Any:
    """Return a signature of a loaded SavedModel without variables. With `one_row`, its batch is 1."""
    specs = {
        name: tf.TensorSpec([1, *spec.shape[1:]] if one_row else spec.shape, spec.dtype, name)
        for name, spec in function.structured_input_signature[1].items()
    }
    traced = tf.function(lambda **given: function(**given)).get_concrete_function(**specs)
    frozen = convert_variables_to_constants_v2(traced, lower_control_flow=False)
    graph = frozen.graph.as_graph_def()
    if one_row:
        _fix_lists(graph)
    inputs, outputs = [each.name for each in frozen.inputs], [each.name for each in frozen.outputs]

    def imported(*given: Any) -> Any:
        fed = dict(zip(inputs, given, strict=True))
        return tf.graph_util.import_graph_def(graph, input_map=fed, return_elements=outputs, name="")

    wrapped = tf.compat.v1.wrap_function(
        imported, [tf.TensorSpec(each.shape, each.dtype) for each in frozen.inputs]
    )
    names = sorted(traced.structured_outputs)

    def answer(**given: Any) -> dict[str, Any]:
        return dict(zip(names, wrapped(*(given[name] for name in sorted(given))), strict=True))

    return tf.function(answer).get_concrete_function(**specs)


def _fix_lists(graph: Any) -> None:
    """Replace the free batch in the shapes of lists by 1."""
    nodes = {node.name: node for node in graph.node}
    for node in graph.node:
        if node.op in ELEMENT_SHAPE:
            source = nodes[node.input[ELEMENT_SHAPE[node.op]].partition(":")[0]]
            while source.op == "Identity":
                source = nodes[source.input[0].partition(":")[0]]
            if source.op == "Const":
                shape = tf.make_ndarray(source.attr["value"].tensor)
                if shape.ndim == 1 and shape.size and shape[0] == -1:
                    shape = [1, *shape[1:]]
                    source.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(shape, tf.int32))
