"""Names in older programs that TensorFlow 2.21 no longer has, with their replacements.

Names are dotted from `tensorflow`. A test compares them with TensorFlow itself (tests/training).
"""

from trainyard.values.lazy import dataclass

GONE = {
    "contrib": "tf.contrib left with TensorFlow 2; use tf.keras, or code of your own",
    "compat.v1.contrib": "tf.contrib left with TensorFlow 2; use tf.keras, or code of your own",
    "examples": "TensorFlow 2 has no tensorflow.examples; put the data under data/ in the yard's bucket, name them "
    "in data.NAME, and read them from the folder in TRAINYARD_DATA_NAME",
    "estimator": "estimators left TensorFlow with 2.16; use a Keras model or a loop of your own",
    "compat.v1.estimator": "estimators left TensorFlow with 2.16; use a Keras model or a loop of your own",
}
"""Names that TensorFlow 2.21 lacks in every configuration."""

KERAS_2_ONLY = """
layers.average_pooling2d layers.batch_normalization layers.conv1d layers.conv2d
layers.conv2d_transpose layers.dense layers.dropout layers.flatten layers.max_pooling2d
layers.separable_conv2d nn.rnn_cell.BasicLSTMCell nn.rnn_cell.BasicRNNCell
nn.rnn_cell.DropoutWrapper nn.rnn_cell.GRUCell nn.rnn_cell.LSTMCell nn.rnn_cell.MultiRNNCell
""".split()  # noqa: SIM905 - as below
"""Names below tensorflow.compat.v1 that exist only with Keras 2 (TF_USE_LEGACY_KERAS=1), which is not the default."""

VERSION_1 = frozenset(  # One text, because a line for each word would fill a page.
    """
    AUTO_REUSE ConfigProto FIFOQueue FixedLenFeature FixedLengthRecordReader GPUOptions GraphDef GraphKeys
    GraphOptions InteractiveSession MetaGraphDef NodeDef OptimizerOptions Print RandomShuffleQueue RunMetadata
    RunOptions Session Summary TFRecordReader TextLineReader VarLenFeature WholeFileReader add_to_collection
    all_variables app arg_max arg_min assign assign_add assign_sub ceil confusion_matrix count_nonzero decode_csv
    decode_raw diag disable_eager_execution disable_resource_variables disable_v2_behavior div
    enable_eager_execution enable_resource_variables enable_v2_behavior flags floordiv get_collection
    get_default_graph get_default_session get_variable get_variable_scope gfile global_variables
    global_variables_initializer glorot_normal_initializer glorot_uniform_initializer initialize_all_variables
    initialize_variables is_nan layers local_variables local_variables_initializer log log1p logging
    make_template mod multinomial no_regularizer orthogonal_initializer parse_example parse_single_example
    placeholder placeholder_with_default py_func python_io random_crop random_normal random_shuffle
    random_uniform read_file reset_default_graph resource_loader rsqrt scatter_add scatter_sub scatter_update
    set_random_seed sparse_placeholder sparse_tensor_to_dense sparse_to_dense squared_difference string_split
    string_to_number substr tables_initializer to_bfloat16 to_double to_float to_int32 to_int64
    trainable_variables truncated_normal truncated_normal_initializer variable_scope variables_initializer
    variance_scaling_initializer where_v2 write_file
    nn.rnn_cell nn.dynamic_rnn nn.bidirectional_dynamic_rnn nn.static_rnn nn.softmax_cross_entropy_with_logits_v2
    nn.xw_plus_b
    summary.FileWriter summary.merge summary.merge_all
    train.AdadeltaOptimizer train.AdagradOptimizer train.AdamOptimizer train.CheckpointSaverHook
    train.ChiefSessionCreator train.FtrlOptimizer train.GradientDescentOptimizer train.LoggingTensorHook
    train.MomentumOptimizer train.MonitoredSession train.MonitoredTrainingSession train.NanTensorHook
    train.Optimizer train.ProximalGradientDescentOptimizer train.QueueRunner train.RMSPropOptimizer train.Saver
    train.Scaffold train.Server train.SessionManager train.SessionRunArgs train.SessionRunHook
    train.SingularMonitoredSession train.StepCounterHook train.StopAtStepHook train.SummarySaverHook
    train.Supervisor train.SyncReplicasOptimizer train.batch train.cosine_decay train.create_global_step
    train.exponential_decay train.get_global_step train.get_or_create_global_step train.import_meta_graph
    train.inverse_time_decay train.piecewise_constant train.polynomial_decay train.replica_device_setter
    train.shuffle_batch train.slice_input_producer train.start_queue_runners train.string_input_producer
    """.split()  # noqa: SIM905
)
"""Names of TensorFlow 1 that exist only below tensorflow.compat.v1."""

NEEDS_VERSION_1 = (
    "TensorFlow 1's name, which TensorFlow 2.21 has only in compat.v1; write `import tensorflow.compat.v1 as tf` and "
    "`tf.disable_v2_behavior()` for `import tensorflow as tf`"
)
NEEDS_KERAS_2 = (
    'missing in Keras 3, which is the default; set TF_USE_LEGACY_KERAS: "1" in program.environment'
)
NEVER_ENDS = (
    "it did not finish when it was tried with TensorFlow 2.21; train synchronously with MultiWorkerMirroredStrategy "
    "(cluster.strategy multi_worker), or asynchronously without it"
)


@dataclass(frozen=True)
class Lost:
    """A missing name and its replacement. The name ends at the first part that is missing, as programs write it."""

    name: str
    advice: str


def find_missing(name: str, *, keras_2: bool, several_hosts: bool) -> Lost | None:
    """Return the missing part of a name that is dotted from `tensorflow`, or None if the name exists.

    `keras_2` is True if TF_USE_LEGACY_KERAS is set.
    """
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        prefix = ".".join(parts[:count])
        advice = _advice(prefix, keras_2=keras_2, several_hosts=several_hosts)
        if advice:
            return Lost(f"tf.{prefix}", advice)
    return None


def _advice(name: str, *, keras_2: bool, several_hosts: bool) -> str | None:
    below = name.removeprefix("compat.v1.")
    if name in GONE:
        return GONE[name]
    if name in VERSION_1:
        return NEEDS_VERSION_1
    if below == name:
        return None
    if not keras_2 and below in KERAS_2_ONLY:
        return NEEDS_KERAS_2
    return NEVER_ENDS if several_hosts and below == "train.SyncReplicasOptimizer" else None
