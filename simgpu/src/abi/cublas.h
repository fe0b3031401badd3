/* What simgpu needs of cuBLAS's and cuBLASLt's binary interface: numbers and layouts, facts of the ABI in our words.
   Enumerations pass as int, handles and descriptors as void *. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef enum {
    BLAS_OK = 0, BLAS_NOT_INITIALIZED = 1, BLAS_ALLOC_FAILED = 3, BLAS_INVALID_VALUE = 7, BLAS_EXECUTION_FAILED = 13,
    BLAS_NOT_SUPPORTED = 15
} blas_status;

/* cudaDataType */
enum {
    TYPE_32F = 0, TYPE_64F = 1, TYPE_16F = 2, TYPE_8I = 3, TYPE_C32F = 4, TYPE_C64F = 5, TYPE_8U = 8, TYPE_32I = 10,
    TYPE_16BF = 14, TYPE_8F_E4M3 = 28, TYPE_8F_E5M2 = 29, TYPE_8F_UE8M0 = 30, TYPE_4F_E2M1 = 33
};

/* cublasMath_t: the low four bits choose, the others are flags. */
enum { MATH_DEFAULT = 0, MATH_TENSOR_OP = 1, MATH_PEDANTIC = 2, MATH_TF32 = 3, MATH_CHOICE = 15 };

/* cublasComputeType_t */
enum {
    COMPUTE_16F = 64, COMPUTE_16F_PEDANTIC = 65, COMPUTE_32F = 68, COMPUTE_32F_PEDANTIC = 69, COMPUTE_64F = 70,
    COMPUTE_64F_PEDANTIC = 71, COMPUTE_32I = 72, COMPUTE_32I_PEDANTIC = 73, COMPUTE_32F_FAST_16F = 74,
    COMPUTE_32F_FAST_16BF = 75, COMPUTE_32F_FAST_TF32 = 77
};

enum { OP_N = 0 };                /* cublasOperation_t: not transposed */
enum { SIDE_LEFT = 0 };           /* cublasSideMode_t */
enum { POINTER_HOST = 0, POINTER_DEVICE = 1 }; /* cublasPointerMode_t */

/* cublasLt's attributes, as far as they change what a product costs. */
enum { LT_LAYOUT_TYPE = 0, LT_LAYOUT_ROWS = 2, LT_LAYOUT_COLS = 3, LT_LAYOUT_BATCH_COUNT = 5 };
enum { LT_DESC_COMPUTE_TYPE = 0, LT_DESC_TRANSA = 3, LT_DESC_TRANSB = 4, LT_DESC_SM_COUNT_TARGET = 15 };
enum { LT_ALGO_CONFIGS = 9 };     /* attributes of an algorithm that can be set, numbered from 0: its id */

typedef struct { uint64_t data[8]; } blaslt_algo;
typedef struct {
    blaslt_algo algo;
    size_t workspace_bytes;
    int state;                    /* blas_status */
    float waves;
    int reserved[4];
} blaslt_result;

typedef struct { float re, im; } blas_complex;
typedef struct { double re, im; } blas_double_complex;
