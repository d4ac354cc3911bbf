"""Save a model that LiteRT cannot run (`save FOLDER`), or ask a host for it with the stock client of TensorFlow Serving
and compare (`ask FOLDER MODEL PORT`)."""

import sys

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

ROWS = ((1.5, -3.25), (0.1, 0.2))
SECONDS = 300


def save(folder):
    from pathlib import Path

    from trainyard.runtime import exports

    module = tf.Module()
    module.weight = tf.Variable(2.5)

    def parse(examples):
        wanted = {"x": tf.io.FixedLenFeature((2,), tf.float32, default_value=(1.0, 2.0))}
        x = tf.io.parse_example(examples, wanted)["x"]
        return {"doubled": x * module.weight, "sum": tf.reduce_sum(x, axis=1)}

    traced = tf.function(parse).get_concrete_function(tf.TensorSpec((None,), tf.string, "examples"))
    tf.saved_model.save(module, folder, signatures={"serving_default": traced})
    exports.complete(Path(folder))


def examples():
    made = []
    for row in ROWS:
        feature = tf.train.Feature(float_list=tf.train.FloatList(value=row))
        features = tf.train.Features(feature={"x": feature})
        made.append(tf.train.Example(features=features).SerializeToString())
    return made


def ask(folder, model, port):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = "serving_default"
    request.inputs["examples"].CopyFrom(tf.make_tensor_proto(examples()))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Predict(request, timeout=SECONDS)
    function = tf.saved_model.load(folder).signatures["serving_default"]
    for name, value in function(examples=tf.constant(examples())).items():
        np.testing.assert_array_equal(tf.make_ndarray(answer.outputs[name]), value.numpy())
    print("equal")


if __name__ == "__main__":
    {"save": save, "ask": ask}[sys.argv[1]](*sys.argv[2:])
