/* What we use of CUPTI's activity interface. Its records only ever grow at their ends, so one layout, the longest,
   serves readers of CUDA 12 and 13; fields that nobody reads stand together as padding. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
    CUPTI_OK = 0, CUPTI_INVALID = 1, CUPTI_NO_MORE = 12, CUPTI_NOT_SUPPORTED = 27, CUPTI_SECOND_SUBSCRIBER = 39,
};
#if CUDA_MAJOR >= 13
enum { CUPTI_VERSION = 130202 };
#else
enum { CUPTI_VERSION = 26 };
#endif

enum { /* kinds of records */
    CUPTI_COPY = 1, CUPTI_SET = 2, CUPTI_RUNTIME_CALL = 5, CUPTI_KERNEL = 10, CUPTI_PEER_COPY = 22, CUPTI_WHOSE = 39,
    CUPTI_KINDS = 64
};
enum { /* calls */
    CUPTI_CALL_MEMCPY_ASYNC = 41, CUPTI_CALL_MEMSET_ASYNC = 51, CUPTI_CALL_LAUNCH = 211, CUPTI_CALL_GRAPH_LAUNCH = 311
};
enum { CUPTI_DOMAIN_RUNTIME = 2, CUPTI_DOMAIN_RESOURCE = 3 };
enum { CUPTI_WHOSE_FIRST = 3, CUPTI_WHOSE_KINDS = 2 }; /* two stacks that the profiler names itself */
enum { CUPTI_TO_DEVICE = 1, CUPTI_TO_HOST = 2, CUPTI_WITHIN_DEVICE = 8 };
enum { CUPTI_PAGEABLE = 1, CUPTI_PINNED = 2, CUPTI_DEVICE = 3 };
enum { CUPTI_FLUSH_UNFINISHED = 1 };

typedef void (*cupti_want_buffer)(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void (*cupti_full_buffer)(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);
typedef uint64_t (*cupti_clock)(void);

#define CUPTI_RECORD __attribute__((packed, aligned(8)))
typedef struct CUPTI_RECORD { uint32_t kind, stack; uint64_t external; uint32_t correlation, pad; } cupti_whose;
typedef struct CUPTI_RECORD {
    uint32_t kind, call;
    uint64_t begin, end;
    uint32_t process, thread, correlation, result;
} cupti_call;
typedef struct CUPTI_RECORD {
    uint32_t kind;
    uint8_t direction, source, target, flags;
    uint64_t bytes, begin, end;
    uint32_t device, context, stream, correlation, pad[2];
    void *unused;
    uint64_t graph_node;
    uint32_t graph, pad_2[5];
} cupti_copy;
typedef struct CUPTI_RECORD {
    uint32_t kind, value;
    uint64_t bytes, begin, end;
    uint32_t device, context, stream, correlation;
    uint16_t flags, memory;
    uint32_t pad;
    void *unused;
    uint64_t graph_node;
    uint32_t graph, pad_2[3];
} cupti_set;
typedef struct CUPTI_RECORD {
    uint32_t kind;
    uint8_t cache, pad;
    uint16_t registers;
    uint32_t cache_settings, pad_2;
    uint64_t begin, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], static_shared, dynamic_shared;
    uint32_t local_per_thread, local, correlation;
    int64_t grid_id;
    const char *name;
    void *unused;
    uint64_t queued, submitted;
    uint8_t launch, carveout[3];
    uint32_t shared_executed;
    uint64_t graph_node;
    uint32_t shared_limit, graph;
    void *access_policy;
    uint32_t channel, channel_kind, cluster[4];
    uint64_t local_2;
    uint32_t pad_3[4];
    int32_t priority;
    uint32_t pad_4;
} cupti_kernel;
_Static_assert(sizeof(cupti_whose) == 24 && sizeof(cupti_call) == 40 && sizeof(cupti_copy) == 96, "CUPTI's layout");
_Static_assert(sizeof(cupti_set) == 88 && sizeof(cupti_kernel) == 224, "CUPTI's layout");
_Static_assert(offsetof(cupti_kernel, name) == 104 && offsetof(cupti_kernel, graph_node) == 144, "CUPTI's layout");
_Static_assert(offsetof(cupti_kernel, graph) == 156 && offsetof(cupti_kernel, channel) == 168, "CUPTI's layout");
_Static_assert(offsetof(cupti_kernel, local_2) == 192 && offsetof(cupti_kernel, priority) == 216, "CUPTI's layout");
