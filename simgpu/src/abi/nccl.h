/* What we use of NCCL's interface. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#if CUDA_MAJOR >= 13
enum { NCCL_VERSION = 23007 };
#else
enum { NCCL_VERSION = 22703 };
#endif

typedef enum {
    NCCL_OK, NCCL_CUDA_ERROR, NCCL_SYSTEM_ERROR, NCCL_INTERNAL_ERROR, NCCL_INVALID_ARGUMENT, NCCL_INVALID_USAGE,
    NCCL_REMOTE_ERROR, NCCL_IN_PROGRESS
} nccl_result;
typedef enum {
    NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64, NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64,
    NCCL_BFLOAT16, NCCL_FLOAT8_E4M3, NCCL_FLOAT8_E5M2, NCCL_TYPES
} nccl_type;
typedef enum { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG, NCCL_OPS } nccl_reduction; /* then those made */
enum { NCCL_SCALAR_ON_DEVICE, NCCL_SCALAR_ON_HOST };
enum { NCCL_NO_COLOR = -1 };

typedef struct { char text[128]; } nccl_unique_id;
typedef struct { size_t bytes; unsigned magic, version; float microseconds; } nccl_estimate;
