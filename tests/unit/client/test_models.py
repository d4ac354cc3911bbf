"""Models among the outputs of a run without an export."""

from trainyard.client.models import FoundModel, find_models


def test_files_and_saved_models_are_found_among_outputs() -> None:
    outputs = {
        "log.txt": 5,
        "outputs/model.keras": 10,
        "export/1/saved_model.pb": 3,
        "export/1/variables/variables.index": 4,
        "export/1/assets/weights.h5": 2,
        "checkpoints/0000010.pt": 7,
        "net.onnx": 8,
        "@attempt-1/net.onnx": 8,
    }
    assert find_models(outputs) == [
        FoundModel("export/1/", 9),
        FoundModel("checkpoints/0000010.pt", 7),
        FoundModel("net.onnx", 8),
        FoundModel("outputs/model.keras", 10),
    ]


def test_logs_and_arrays_are_no_models() -> None:
    assert find_models({"history.csv": 1, "weights_0.npy": 1, "model.json": 1}) == []
