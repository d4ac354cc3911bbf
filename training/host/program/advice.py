"""Advice on common errors of programs. Pure."""

import re

from training.host.program.tasks import FEWEST, PER_CPU

LEGACY_KERAS = (
    "Keras 3's fit cannot train across hosts: import tf_keras instead of tf.keras, or put "
    'TF_USE_LEGACY_KERAS: "1" into program.environment, or write the loop yourself'
)
PACKAGES = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
}
"""Packages whose name differs from the name that programs import."""

VERSION_1 = (
    "the program needs TensorFlow 1: import tensorflow.compat.v1 as tf and call tf.disable_v2_behavior()"
)
NAMES_OF_1 = (
    "placeholder|Session|InteractiveSession|app|flags|get_variable|variable_scope|global_variables_initializer|layers"
    r"|train\.\w+|ConfigProto|set_random_seed|logging"
)
NO_DATA = (
    "if data are missing: data entries lie in the folders TRAINYARD_DATA_<NAME>, which program.args may name as "
    "${data.NAME}"
)
INTERNET = (
    "the program loads {what} from the internet, which this host cannot reach: put it into the bucket and name it in "
    "the job's section data"
)
KERAS_DATA = (
    "{name} is one of Keras's datasets: put it into the bucket as datasets/{name} below a folder that the job's "
    "section data names keras, which is ~/.keras on hosts, and load_data() finds it there"
)
ADDRESS = re.compile(r"https?://[^\s'\"<>)\]]+")
OLD_LAYERS = (
    "tf.compat.v1.layers needs Keras 2: build the layer from variables and tf.matmul, or use tf_keras.layers"
)
TOO_FEW_FILES = (
    "there are fewer files than workers: split the data into more files, or set auto_shard_policy to DATA"
)
NO_S3 = (
    "TensorFlow cannot read s3://: name the data in the job's section data and read it from the folder in "
    "TRAINYARD_DATA_<NAME>"
)
NO_CONTRIB = "TensorFlow 2 has no tf.contrib: use Keras, or the package that replaced that part"
NO_EXAMPLES = (
    "TensorFlow 2 has no tensorflow.examples: put the data into the bucket and the job's section data"
)
NO_ESTIMATOR = "TensorFlow has no tf.estimator since 2.16: use Keras or your own training loop"
NO_PARTITIONER = "a variable partitioner works only with tf_keras models: remove it, or use tf_keras"
GPU_MEMORY = "the GPU's memory is too small: use a smaller batch or an instance type with more GPU memory"
MEMORY = "the host's memory is too small: use a smaller batch or a larger instance type"
NO_GPU = "the program needs a GPU that this host does not have: name a type with that GPU in hardware.instance_types"
NO_CUDA = "this PyTorch was built without CUDA: name a build with CUDA in the file of program.requirements"
TOO_MANY_TASKS = (
    f"the program started more processes and threads than a host lets it run at once ({FEWEST:,}, or {PER_CPU} for "
    "each vCPU): start fewer, and wait for those that were started"
)
IN_ITS_IMAGE = (
    "programs start inside their image (program.container): name a command of the image, put the missing one into the "
    "image, or bring it with program.source, as in [sh, run.sh]"
)
NO_TASK = (
    r"can't start new thread|[Cc]annot fork|fork: (?:retry: )?Resource temporarily unavailable"
    r"|BlockingIOError: \[Errno 11\] Resource temporarily unavailable"
)
PORT_IN_USE = "another server uses the port: start only one server, at this host's own address in TF_CONFIG"

ADVICE = (
    # a pattern in the program's output, and the advice; the first match counts
    (r"tensorflow\.contrib|has no attribute 'contrib'", NO_CONTRIB),
    (r"No module named 'tensorflow\.examples", NO_EXAMPLES),
    (r"tensorflow[._]estimator|has no attribute 'estimator'", NO_ESTIMATOR),
    (r"is not available with Keras 3", OLD_LAYERS),
    (rf"module 'tensorflow' has no attribute '(?:{NAMES_OF_1})'", VERSION_1),
    (r"module 'tensorflow\.\S*train' has no attribute", VERSION_1),
    (r"convert a value \(PerReplica:", LEGACY_KERAS),
    (r"pass this dataset to\s+`?ClusterCoordinator", LEGACY_KERAS),
    (r"'ShardedVariable' object has no attribute", NO_PARTITIONER),
    (r"File system scheme 's3' not implemented", NO_S3),
    (r"Could not apply FILE based sharding", TOO_FEW_FILES),
    (r"OOM when allocating .*device:CPU|DefaultCPUAllocator", MEMORY),
    (r"RESOURCE_EXHAUSTED: Out of memory allocating|(?<!OutOf)MemoryError\b", MEMORY),
    (r"OOM when allocating|CUDA_ERROR_OUT_OF_MEMORY|failed to allocate memory", GPU_MEMORY),
    (r"CUDA out of memory|OutOfMemoryError|Out of memory while trying to allocate", GPU_MEMORY),
    (r"No CUDA GPUs are available|Found no NVIDIA driver|Unknown backend: '(?:gpu|cuda)' requested", NO_GPU),
    (r"Could not satisfy device specification .*:GPU:", NO_GPU),
    (r"Torch not compiled with CUDA enabled", NO_CUDA),
    (
        NO_TASK,
        TOO_MANY_TASKS,
    ),
    (r"Address already in use|Could not start gRPC server|Failed to bind to address", PORT_IN_USE),
    (
        r"URL fetch failure|urlopen error|Temporary failure in name resolution|Max retries exceeded",
        INTERNET,
    ),
    (
        r"Missing parentheses in call to 'print'",
        "the program is written for Python 2, and hosts run Python 3",
    ),
    (r"FileNotFoundError|NotFoundError: .*No such file or directory", NO_DATA),
)
NO_MODULE = re.compile(r"No module named '([\w.]+)'")
NO_NAME = re.compile(r"cannot import name '\w+' from '([\w.]+)'")
KERAS_STORE = "keras-datasets/"
"""Part of the address of every data set of Keras."""
COMPILED = tuple((re.compile(pattern), advice) for pattern, advice in ADVICE)


def advice_on(output: str) -> str | None:
    """Return advice on the program's last output; None if there is none."""
    for pattern, advice in COMPILED:
        if pattern.search(output):
            return advise_on_address(output) if advice is INTERNET else advice
    if missing := NO_MODULE.search(output):
        name = missing[1].partition(".")[0]
        return (
            f"add {PACKAGES.get(name, name)} to the file that program.requirements names, or, if {name} is your "
            "own, to the program's archive"
        )
    if other := NO_NAME.search(output):
        package = other[1].partition(".")[0]
        return f"the host's {package} is another version: name the one you need in the file of program.requirements"
    return None


def advise_on_address(output: str) -> str:
    """Return advice on a file from the internet, with its address if the output names it."""
    address = ADDRESS.search(output)
    url = address[0].rstrip(".,:;") if address else ""
    advice = INTERNET.format(what=url or "something")
    if KERAS_STORE not in url:
        return advice
    return f"{advice}; {KERAS_DATA.format(name=url.rpartition('/')[2])}"
