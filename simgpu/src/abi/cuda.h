/* The binary interface of CUDA's runtime and driver, as far as torch and Triton rest on it: facts, in words of our own.
   CUDA_MAJOR is 12 or 13; where the two differ it says so. Handles are pointers that only these libraries look into. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct { unsigned x, y, z; } dim3;

/* ---- errors: the runtime's and the driver's numbers are the same ---- */

typedef int cuda_error;
enum {
    CUDA_OK = 0, CUDA_INVALID_VALUE = 1, CUDA_OUT_OF_MEMORY = 2, CUDA_NOT_INITIALIZED = 3,
    CUDA_INVALID_CONFIGURATION = 9, CUDA_DEVICES_UNAVAILABLE = 46, CUDA_NO_DEVICE = 100, CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_IMAGE = 200, CUDA_INVALID_CONTEXT = 201, CUDA_ECC_UNCORRECTABLE = 214,
    CUDA_PEER_ACCESS_UNSUPPORTED = 217, CUDA_NVLINK_UNCORRECTABLE = 220,
    CUDA_FILE_NOT_FOUND = 301, CUDA_INVALID_HANDLE = 400, CUDA_ILLEGAL_STATE = 401, CUDA_NOT_FOUND = 500,
    CUDA_NOT_READY = 600, CUDA_ILLEGAL_ADDRESS = 700, CUDA_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_ALREADY_REGISTERED = 712, CUDA_NOT_REGISTERED = 713, CUDA_LAUNCH_FAILED = 719, CUDA_NOT_SUPPORTED = 801,
    CUDA_CAPTURE_UNSUPPORTED = 900, CUDA_CAPTURE_INVALIDATED = 901, CUDA_CAPTURE_MERGE = 902,
    CUDA_CAPTURE_UNMATCHED = 903, CUDA_CAPTURE_UNJOINED = 904, CUDA_CAPTURE_ISOLATION = 905, CUDA_CAPTURE_IMPLICIT = 906, CUDA_CAPTURED_EVENT = 907,
    CUDA_CAPTURE_WRONG_THREAD = 908, CUDA_UNKNOWN = 999,
};

/* ---- device attributes: numbered alike in both interfaces ---- */

enum {
    ATTR_MAX_THREADS_PER_BLOCK = 1, ATTR_MAX_BLOCK_X, ATTR_MAX_BLOCK_Y, ATTR_MAX_BLOCK_Z,
    ATTR_MAX_GRID_X, ATTR_MAX_GRID_Y, ATTR_MAX_GRID_Z, ATTR_SHARED_PER_BLOCK, ATTR_CONSTANT_BYTES, ATTR_WARP_SIZE,
    ATTR_MAX_PITCH, ATTR_REGISTERS_PER_BLOCK, ATTR_CLOCK_KHZ, ATTR_TEXTURE_ALIGNMENT, ATTR_OVERLAPS,
    ATTR_MULTIPROCESSORS,
    ATTR_MAPS_HOST_MEMORY = 19, ATTR_COMPUTE_MODE, ATTR_CONCURRENT_KERNELS = 31, ATTR_ECC, ATTR_PCI_BUS,
    ATTR_PCI_DEVICE,
    ATTR_MEMORY_CLOCK_KHZ = 36, ATTR_MEMORY_BUS_BITS, ATTR_L2_BYTES, ATTR_THREADS_PER_SM, ATTR_COPY_ENGINES,
    ATTR_UNIFIED_ADDRESSING, ATTR_PCI_DOMAIN = 50, ATTR_MAJOR = 75, ATTR_MINOR = 76, ATTR_STREAM_PRIORITIES = 78,
    ATTR_GLOBAL_L1, ATTR_LOCAL_L1, ATTR_SHARED_PER_SM, ATTR_REGISTERS_PER_SM, ATTR_MANAGED_MEMORY,
    ATTR_FP32_TO_FP64 = 87, ATTR_PREEMPTS = 90, ATTR_HOST_POINTERS = 91, ATTR_COOPERATIVE_LAUNCH = 95,
    ATTR_SHARED_PER_BLOCK_OPTIN = 97, ATTR_HOST_REGISTER = 99, ATTR_VIRTUAL_MEMORY = 102, ATTR_FILE_HANDLES = 103,
    ATTR_BLOCKS_PER_SM = 106, ATTR_SHARED_RESERVED = 111, ATTR_MEMORY_POOLS = 115, ATTR_CLUSTER_LAUNCH = 120,
    ATTR_FABRIC_HANDLES = 128, ATTR_MULTICAST = 132,
};

/* ---- runtime ---- */

enum { COPY_HOST_TO_HOST, COPY_TO_DEVICE, COPY_TO_HOST, COPY_WITHIN_DEVICE, COPY_BY_ADDRESS };
enum { MEMORY_UNREGISTERED, MEMORY_HOST, MEMORY_DEVICE };
enum { STREAM_NON_BLOCKING = 1 };
enum { EVENT_DISABLE_TIMING = 2 };
enum { EVENT_WAIT_EXTERNAL = 1 };
enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED };
enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };
enum { ENTRY_POINT_FOUND, ENTRY_POINT_NOT_FOUND };

typedef struct { int type, device; void *device_pointer, *host_pointer;
#if CUDA_MAJOR >= 13
    long reserved[8];
#endif
} pointer_attributes;

typedef struct {
    size_t shared_bytes, constant_bytes, local_bytes;
    int max_threads, registers, ptx_version, binary_version, caches_global, max_dynamic_shared_bytes, rest[24];
} function_attributes;
_Static_assert(sizeof(function_attributes) == 144, "cudaFuncAttributes");

typedef struct {
    dim3 grid, block;
    size_t shared_bytes;
    void *stream, *attributes;
    unsigned attribute_count;
} launch_config;

/* cudaDeviceProp, which torch and Python extensions read by offset. Generation 13 dropped what is marked 12. */
#if CUDA_MAJOR < 13
#define ONLY_12(field) field;
#else
#define ONLY_12(field)
#endif
typedef struct {
    char name[256], uuid[16], luid[8];
    unsigned luid_mask;
    size_t memory_bytes, shared_per_block;
    int registers_per_block, warp_size;
    size_t max_pitch;
    int max_threads_per_block, max_block[3], max_grid[3];
    ONLY_12(int clock_khz)
    size_t constant_bytes;
    int major, minor;
    size_t texture_alignment, texture_pitch_alignment;
    ONLY_12(int overlaps)
    int multiprocessors;
    ONLY_12(int has_timeout)
    int integrated, maps_host_memory;
    ONLY_12(int compute_mode)
    int texture_1d, texture_1d_mipmap;
    ONLY_12(int texture_1d_linear)
    int texture_2d[2], texture_2d_mipmap[2], texture_2d_linear[3], texture_2d_gather[2], texture_3d[3];
    int texture_3d_other[3];
    int texture_cube, texture_1d_layered[2], texture_2d_layered[3], texture_cube_layered[2];
    int surface_1d, surface_2d[2], surface_3d[3], surface_1d_layered[2], surface_2d_layered[3], surface_cube;
    int surface_cube_layered[2];
    size_t surface_alignment;
    int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, copy_engines, unified_addressing;
    ONLY_12(int memory_clock_khz)
    int memory_bus_bits, l2_bytes, persisting_l2_bytes, threads_per_sm, stream_priorities, global_l1, local_l1;
    size_t shared_per_sm;
    int registers_per_sm, managed_memory, is_multi_board, multi_board_group, native_atomics;
    ONLY_12(int fp32_to_fp64)
    int pageable_access, concurrent_managed, preempts, host_pointers, cooperative_launch;
    ONLY_12(int cooperative_multi_launch)
    size_t shared_per_block_optin;
    int pageable_by_host_tables, managed_from_host, blocks_per_sm, policy_window_bytes;
    size_t shared_reserved_per_block;
    int host_register, sparse_arrays, host_register_read_only, timeline_semaphores, memory_pools, rdma;
    unsigned rdma_flush;
    int rdma_ordering;
    unsigned pool_handles;
    int deferred_arrays, ipc_events, cluster_launch, unified_functions, reserved[63];
} device_properties;
#if CUDA_MAJOR < 13
_Static_assert(sizeof(device_properties) == 1032, "cudaDeviceProp of CUDA 12");
#else
_Static_assert(sizeof(device_properties) == 1008, "cudaDeviceProp of CUDA 13");
#endif

/* ---- driver ---- */

enum { FUNC_MAX_THREADS = 0, FUNC_SHARED_BYTES = 1, FUNC_LOCAL_BYTES = 3, FUNC_REGISTERS = 4, FUNC_PTX_VERSION = 5,
       FUNC_BINARY_VERSION = 6, FUNC_MAX_DYNAMIC_SHARED = 8, FUNC_COUNT = 16 };
enum { POINTER_CONTEXT = 1, POINTER_MEMORY_TYPE, POINTER_DEVICE, POINTER_HOST, POINTER_BUFFER_ID = 7,
       POINTER_IS_MANAGED, POINTER_ORDINAL, POINTER_IPC_CAPABLE, POINTER_RANGE_START, POINTER_RANGE_BYTES };

typedef struct { int type, id; } memory_location;
typedef struct {
    int type, handle_types;
    memory_location location;
    void *security;
    uint8_t compression, rdma;
    uint16_t usage;
    uint8_t reserved[4];
} allocation_properties;
typedef struct {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void *stream, *attributes;
    unsigned attribute_count;
} driver_launch_config;
