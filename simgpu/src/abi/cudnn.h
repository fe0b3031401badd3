/* What simgpu needs of cuDNN 9's binary interface: numbers and layouts, facts of the ABI in our words. Enumerations
   pass as int, handles and descriptors as pointers. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { DNN_MOST_DIMS = 8 };

/* cudnnStatus_t; within a thousand the numbers tell more of the same kind of failure. */
typedef enum {
    DNN_OK = 0, DNN_NOT_INITIALIZED = 1001, DNN_BAD_PARAM = 2000, DNN_NOT_SUPPORTED = 3000, DNN_INTERNAL_ERROR = 4000,
    DNN_EXECUTION_FAILED = 5000
} dnn_status;

/* cudnnDataType_t */
enum {
    DNN_FLOAT = 0, DNN_DOUBLE = 1, DNN_HALF = 2, DNN_INT8 = 3, DNN_INT32 = 4, DNN_UINT8 = 6, DNN_BFLOAT16 = 9,
    DNN_INT64 = 10, DNN_BOOLEAN = 11, DNN_FP8_E4M3 = 12, DNN_FP8_E5M2 = 13
};

enum { DNN_DEFAULT_MATH = 0, DNN_TENSOR_OP_MATH = 1, DNN_FMA_MATH = 3 }; /* cudnnMathType_t */
enum { DNN_NCHW = 0, DNN_NHWC = 1 };                                     /* cudnnTensorFormat_t */
enum { DNN_DETERMINISTIC = 1 };                                          /* cudnnDeterminism_t */
enum { PROPERTY_MAJOR = 0, PROPERTY_MINOR = 1, PROPERTY_PATCH = 2 };     /* libraryPropertyType */

/* The algorithms of the older interface that there are here. Which number means what differs by direction, but these
   two do the same in all: an implicit product without a workspace, and Winograd's with one. */
enum { DNN_ALGO_IMPLICIT = 1, DNN_ALGO_WINOGRAD_FORWARD = 7, DNN_ALGO_WINOGRAD_BACKWARD = 5 };
typedef struct {
    int algo, status;
    float time_ms;
    size_t workspace_bytes;
    int determinism, math, reserved[3];
} dnn_algo_found;

/* ---- recurrent layers ---- */

enum { RNN_RELU = 0, RNN_TANH = 1, RNN_LSTM = 2, RNN_GRU = 3 };                        /* cudnnRNNMode_t */
enum { RNN_NO_BIAS = 0, RNN_ONE_INPUT_BIAS = 1, RNN_TWO_BIASES = 2, RNN_ONE_STATE_BIAS = 3 }; /* cudnnRNNBiasMode_t */
enum { RNN_BOTH_DIRECTIONS = 1, RNN_SKIPS_INPUT = 1, RNN_INFERENCE = 0, RNN_TRAINING = 1 };

/* ---- the backend: descriptors with attributes ---- */

/* cudnnBackendAttributeType_t: how long an element is */
enum {
    BACKEND_HANDLE = 0, BACKEND_BOOLEAN = 2, BACKEND_INT64 = 3, BACKEND_DOUBLE = 5, BACKEND_VOID_PTR = 6,
    BACKEND_DESCRIPTOR = 15, BACKEND_CHAR = 24, BACKEND_FRACTION = 26
};
/* cudnnBackendDescriptorType_t */
enum {
    BACKEND_ENGINE = 2, BACKEND_ENGINE_CONFIG = 3, BACKEND_HEURISTICS = 4, BACKEND_PLAN = 5, BACKEND_FORWARD = 10,
    BACKEND_BACKWARD_FILTER = 11, BACKEND_BACKWARD_DATA = 12, BACKEND_POINTWISE = 13, BACKEND_GRAPH = 15,
    BACKEND_TENSOR = 17, BACKEND_MATMUL = 19, BACKEND_REDUCTION = 22, BACKEND_RESHAPE = 31, BACKEND_RNG = 33,
    BACKEND_ATTENTION_FORWARD = 41, BACKEND_ATTENTION_BACKWARD = 43, BACKEND_BAND_MASK = 44
};
/* cudnnBackendAttributeName_t */
enum {
    OF_HEURISTICS_GRAPH = 201, OF_HEURISTICS_RESULTS = 202,
    OF_CONFIG_ENGINE = 300, OF_CONFIG_WORKSPACE = 303, OF_CONFIG_SHARED_MEMORY = 304,
    OF_PLAN_CONFIG = 401, OF_PLAN_WORKSPACE = 402, OF_PLAN_JSON = 405,
    OF_FORWARD_CONVOLUTION = 702, OF_FORWARD_W = 703, OF_FORWARD_X = 704, OF_FORWARD_Y = 705,
    OF_BACKWARD_DATA_W = 709, OF_BACKWARD_DATA_DX = 710, OF_BACKWARD_DATA_DY = 711,
    OF_BACKWARD_FILTER_DW = 715, OF_BACKWARD_FILTER_X = 716, OF_BACKWARD_FILTER_DY = 717,
    OF_GRAPH_OPERATIONS = 801, OF_GRAPH_ENGINE_COUNT = 802,
    OF_TENSOR_TYPE = 901, OF_TENSOR_DIMS = 902, OF_TENSOR_STRIDES = 903, OF_TENSOR_ID = 906, OF_TENSOR_IS_VIRTUAL = 907,
    OF_ENGINE_GRAPH = 1300, OF_ENGINE_INDEX = 1301, OF_ENGINE_NUMERICAL_NOTES = 1303,
    OF_MATMUL_A = 1520, OF_MATMUL_B = 1521, OF_MATMUL_C = 1522,
    OF_ATTENTION_FORWARD_Q = 2800, OF_ATTENTION_FORWARD_K = 2801, OF_ATTENTION_FORWARD_V = 2802,
    OF_ATTENTION_BACKWARD_Q = 2851, OF_ATTENTION_BACKWARD_K = 2852, OF_ATTENTION_BACKWARD_V = 2853
};
enum { NOTE_TENSOR_CORE = 0, NOTE_WINOGRAD = 5 }; /* cudnnBackendNumericalNote_t */
