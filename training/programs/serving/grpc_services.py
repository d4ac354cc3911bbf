"""The services of TensorFlow Serving: predictions, signatures and the state of one version."""

from collections.abc import Mapping
from typing import Any, NoReturn

import grpc
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from training.programs.serving.idle import Idle
from training.programs.serving.model import Model
from trainyard.core.prediction.http import RefusedError, Status
from trainyard.core.prediction.tensors import describe
from trainyard.protocol.export import DEFAULT_SIGNATURE, SAVED_MODEL, SignatureTypes, TensorType
from trainyard.values.validation import did_you_mean

CODES = {
    Status.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    Status.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Status.NO_MEMORY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Status.FAILED: grpc.StatusCode.INTERNAL,
}
SIGNATURES = "signature_def"
"""The only metadata that TensorFlow Serving has."""
SERVE_TAG = "serve"


def add(server: Any, model: Model, idle: Idle) -> None:
    """Add the services to a server."""
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Predictions(model, idle), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(States(model), server)


class Predictions(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, model: Model, idle: Idle) -> None:
        self._model, self._idle = model, idle
        self._definitions = _read_definitions(model)

    def Predict(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the protocol
        """Answer a request with tensors."""
        try:
            answer = self._predict(request)
        except RefusedError as refused:
            _refuse(context, refused)
        self._idle.add()
        return answer

    def GetModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the signatures, as the SavedModel has them."""
        try:
            _check_version(self._model, request.model_spec)
            if unknown := [field for field in request.metadata_field if field != SIGNATURES]:
                said = f"metadata_field: found {unknown[0]}; wanted {SIGNATURES}"
                raise RefusedError(Status.BAD_REQUEST, said)
        except RefusedError as refused:
            _refuse(context, refused)
        answer = get_model_metadata_pb2.GetModelMetadataResponse()
        _name(answer.model_spec, self._model)
        signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=self._definitions)
        answer.metadata[SIGNATURES].Pack(signatures)
        return answer

    def Classify(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refuse examples: they need tensorflow_model_server."""
        _refuse_examples(context, "Classify")

    def Regress(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refuse examples: they need tensorflow_model_server."""
        _refuse_examples(context, "Regress")

    def MultiInference(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refuse examples: they need tensorflow_model_server."""
        _refuse_examples(context, "MultiInference")

    def _predict(self, request: Any) -> Any:
        model = self._model
        _check_version(model, request.model_spec)
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        types = model.check_signature(name)
        try:
            tensors = {each: tf.make_ndarray(proto) for each, proto in request.inputs.items()}
        except (TypeError, ValueError) as error:
            raise RefusedError(Status.BAD_REQUEST, f"inputs: a tensor is malformed: {error}") from error
        if fault := find_fault(tensors, types):
            raise RefusedError(Status.BAD_REQUEST, f"{model.name} {model.number}, {name}, {fault}")
        wanted = [*request.output_filter] or [*types.outputs]
        if unknown := [each for each in wanted if each not in types.outputs]:
            known = ", ".join(types.outputs)
            said = f"{model.name} {model.number}, {name}: output_filter: found {unknown[0]}; wanted {known}"
            raise RefusedError(Status.BAD_REQUEST, said)
        outputs = model.run(name, tensors)
        answer = predict_pb2.PredictResponse()
        _name(answer.model_spec, model)
        answer.model_spec.signature_name = name
        for each in wanted:
            answer.outputs[each].CopyFrom(tf.make_tensor_proto(outputs[each]))
        return answer


class States(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, model: Model) -> None:
        self._model = model

    def GetModelStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the state of the version, which is available."""
        try:
            _check_version(self._model, request.model_spec)
        except RefusedError as refused:
            _refuse(context, refused)
        answer = get_model_status_pb2.GetModelStatusResponse()
        state = answer.model_version_status.add()
        state.version = self._model.number
        state.state = get_model_status_pb2.ModelVersionStatus.AVAILABLE
        return answer

    def HandleReloadConfigRequest(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refuse other models: a host serves one version."""
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED, "this host serves one version, and another host the next one"
        )


def find_fault(tensors: Mapping[str, Any], types: SignatureTypes) -> str | None:
    """Return the first difference of the input arrays from a signature."""
    for name in tensors:
        if name not in types.inputs:
            wanted = ", ".join(types.inputs)
            return f"inputs: found the key {name}; wanted {wanted}{did_you_mean(name, [*types.inputs])}"
    if missing := [name for name in types.inputs if name not in tensors]:
        return f"inputs: missing {', '.join(missing)}; wanted {', '.join(types.inputs)}"
    for name, array in tensors.items():
        wanted_type = types.inputs[name]
        dtype = tf.as_dtype(array.dtype).name
        if dtype != wanted_type.dtype or not _fits(array.shape, wanted_type):
            found = describe(TensorType(dtype=dtype, shape=tuple(array.shape)))
            return f"inputs.{name}: found {found}; wanted {describe(wanted_type)}"
    return None


def _fits(shape: tuple[int, ...], wanted: TensorType) -> bool:
    return wanted.shape is None or (
        len(shape) == len(wanted.shape)
        and all(size in (None, found) for size, found in zip(wanted.shape, shape, strict=True))
    )


def _check_version(model: Model, spec: Any) -> None:
    choice = spec.WhichOneof("version_choice")
    word = {"version": str(spec.version.value), "version_label": spec.version_label}.get(choice or "")
    model.check_version(spec.name, word)


def _name(spec: Any, model: Model) -> None:
    spec.name = model.name
    spec.version.value = model.number


def _read_definitions(model: Model) -> Mapping[str, Any]:
    found = saved_model_pb2.SavedModel()
    found.ParseFromString((model.folder / SAVED_MODEL).read_bytes())
    graph = next(each for each in found.meta_graphs if SERVE_TAG in each.meta_info_def.tags)
    return dict(graph.signature_def)


def _refuse(context: Any, refused: RefusedError) -> NoReturn:
    context.abort(CODES.get(refused.status, grpc.StatusCode.UNKNOWN), str(refused))
    raise refused


def _refuse_examples(context: Any, verb: str) -> NoReturn:
    said = f"{verb} works only with tensorflow_model_server; use Predict with the signature's inputs"
    context.abort(grpc.StatusCode.UNIMPLEMENTED, said)
    raise RefusedError(Status.BAD_REQUEST, said)
