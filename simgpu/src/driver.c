/* libcuda.so.1: contexts, virtual memory for torch's expandable segments, modules and launches for NVRTC and Triton. */
#define _GNU_SOURCE
#include "abi/cuda.h"
#include "core.h"
#include "cost.h"
#include "driver_code.h"
#include "errors.h"
#include "properties.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef cuda_error R;
typedef uint64_t address;
enum { CUDA_VERSION = 1000 * CUDA_MAJOR + 10 * CUDA_MINOR };
#define TRY(ok, error) do { if (!(ok)) return (error); } while (0)
#define PASS(call) do { R passed_ = (call); if (passed_) return passed_; } while (0)
#define ENTER() PASS(sim_refuses(__func__))

/* ---- devices: a device is its ordinal ---- */

static bool is_device(int ordinal) { return ordinal >= 0 && ordinal < sim_cuda_count(); }

R cuInit(unsigned flags) {
    int code;
    if (sim_fails(__func__, &code)) return code;
    return sim_cuda_count() ? CUDA_OK : CUDA_NO_DEVICE;
}
R cuDriverGetVersion(int *version) { *version = CUDA_VERSION; return CUDA_OK; }
R cuGetErrorString(R e, const char **text) { return (*text = sim_error_text(e)) ? CUDA_OK : CUDA_INVALID_VALUE; }
R cuGetErrorName(R e, const char **name) { return (*name = sim_error_name(e, 1)) ? CUDA_OK : CUDA_INVALID_VALUE; }
R cuLogsRegisterCallback(void *f, void *with, void **handle) { /* nothing is ever logged */
    *handle = f;
    return CUDA_OK;
}
R cuLogsUnregisterCallback(void *handle) { return CUDA_OK; }
R cuDeviceGetCount(int *count) { *count = sim_cuda_count(); return CUDA_OK; }
R cuDeviceGet(int *device, int ordinal) {
    TRY(is_device(ordinal), CUDA_INVALID_DEVICE);
    *device = ordinal;
    return CUDA_OK;
}
R cuDeviceGetName(char *name, int bytes, int device) {
    TRY(is_device(device), CUDA_INVALID_DEVICE);
    snprintf(name, (size_t)bytes, "%s", sim_device_of(device)->name);
    return CUDA_OK;
}
R cuDeviceGetUuid_v2(char *uuid, int device) {
    TRY(is_device(device), CUDA_INVALID_DEVICE);
    memcpy(uuid, sim_device_of(device)->uuid_bytes, 16);
    return CUDA_OK;
}
R cuDeviceGetUuid(char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }
R cuDeviceTotalMem_v2(size_t *bytes, int device) {
    TRY(is_device(device), CUDA_INVALID_DEVICE);
    *bytes = (size_t)sim_device_of(device)->memory_bytes;
    return CUDA_OK;
}
R cuDeviceGetPCIBusId(char *id, int bytes, int device) {
    TRY(is_device(device), CUDA_INVALID_DEVICE);
    snprintf(id, (size_t)bytes, "0000:%02X:00.0", (unsigned)sim_device_of(device)->pci_bus);
    return CUDA_OK;
}
R cuDeviceGetAttribute(int *value, int attribute, int device) {
    TRY(is_device(device), CUDA_INVALID_DEVICE);
    *value = 0;
    if (!sim_attribute(sim_device_of(device), attribute, value)) sim_note("device attribute %d answers 0", attribute);
    return CUDA_OK;
}

/* ---- contexts: a device has its primary one, which the runtime uses too ---- */

static char contexts[SIM_DEVICES];
static __thread struct { int ordinals[16], depth; } pushed;

static void *context_of(int ordinal) { return &contexts[ordinal]; }
static int ordinal_of(const void *context) {
    ptrdiff_t at = (const char *)context - contexts;
    return at >= 0 && at < sim_cuda_count() ? (int)at : -1;
}

R cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    TRY(is_device(device), CUDA_INVALID_DEVICE);
    *flags = 0, *active = sim_has_context(device);
    return CUDA_OK;
}
R cuDevicePrimaryCtxRetain(void **context, int device) {
    TRY(is_device(device), CUDA_INVALID_DEVICE);
    int before = sim_current;
    sim_current = device;
    R error = sim_refuses(__func__);
    if (!error) error = sim_enter_context();
    sim_current = before;
    *context = error ? NULL : context_of(device);
    return error;
}
R cuDevicePrimaryCtxRelease_v2(int device) { return is_device(device) ? CUDA_OK : CUDA_INVALID_DEVICE; }
/* Of a thread that has called neither interface CUDA says that it has no context; here it has that of its device. */
R cuCtxGetCurrent(void **context) {
    *context = sim_cuda_count() && sim_has_context(sim_current) ? context_of(sim_current) : NULL;
    return CUDA_OK;
}
R cuCtxSetCurrent(void *context) {
    if (!context) return CUDA_OK;
    TRY(ordinal_of(context) >= 0, CUDA_INVALID_CONTEXT);
    sim_current = ordinal_of(context);
    return CUDA_OK;
}
R cuCtxPushCurrent_v2(void *context) {
    TRY(ordinal_of(context) >= 0 && pushed.depth < 16, CUDA_INVALID_CONTEXT);
    pushed.ordinals[pushed.depth++] = sim_current;
    return cuCtxSetCurrent(context);
}
R cuCtxPopCurrent_v2(void **context) {
    TRY(pushed.depth, CUDA_INVALID_CONTEXT);
    if (context) *context = context_of(sim_current);
    sim_current = pushed.ordinals[--pushed.depth];
    return CUDA_OK;
}
R cuCtxGetDevice(int *device) {
    TRY(sim_cuda_count() && sim_has_context(sim_current), CUDA_INVALID_CONTEXT);
    *device = sim_current;
    return CUDA_OK;
}
R cuCtxGetApiVersion(void *context, unsigned *version) { *version = 3020; return CUDA_OK; }
R cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0, *greatest = -5; return CUDA_OK; }
R cuCtxSetLimit(int limit, size_t value) { return CUDA_OK; }
R cuCtxGetLimit(size_t *value, int limit) { *value = 1048576; return CUDA_OK; }
R cuCtxSynchronize(void) {
    ENTER();
    sim_wait_until(sim_device_tail(sim_current));
    return sim_refuses("");
}
R cuStreamSynchronize(void *stream) {
    ENTER();
    TRY(!sim_stream_of(stream)->capture, CUDA_CAPTURE_UNSUPPORTED);
    sim_wait_until(sim_tail(sim_stream_of(stream)));
    return sim_refuses("");
}
R cuStreamGetCtx(void *stream, void **context) { *context = context_of(sim_stream_of(stream)->device); return CUDA_OK; }
R cuStreamIsCapturing(void *stream, int *status) {
    const sim_graph *capture = sim_stream_of(stream)->capture;
    *status = !capture ? CAPTURE_NONE : capture->invalid ? CAPTURE_INVALIDATED : CAPTURE_ACTIVE;
    return CUDA_OK;
}

/* ---- memory ---- */

R cuMemAlloc_v2(address *at, size_t bytes) {
    ENTER();
    *at = (address)sim_malloc(bytes);
    return *at ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}
R cuMemFree_v2(address at) { return sim_free((void *)at) ? CUDA_OK : CUDA_INVALID_VALUE; }
R cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    ENTER();
    PASS(sim_enter_context());
    int64_t left = sim_here()->memory_bytes - sim_used_bytes(sim_here()->index);
    *total = (size_t)sim_here()->memory_bytes, *free_bytes = left > 0 ? (size_t)left : 0;
    return CUDA_OK;
}
R cuMemGetAddressRange_v2(address *base, size_t *bytes, address at) {
    void *from = NULL;
    size_t length = 0;
    TRY(sim_find((void *)at, &from, &length, NULL) != SIM_NOWHERE, CUDA_NOT_FOUND);
    if (base) *base = (address)from;
    if (bytes) *bytes = length;
    return CUDA_OK;
}
R cuMemsetD32Async(address at, unsigned value, size_t count, void *stream) {
    ENTER();
    if (!value) sim_set((void *)at, 0, 4 * count);
    else for (size_t i = 0; i < count; i++) ((unsigned *)at)[i] = value;
    sim_stream *s = sim_stream_of(stream);
    sim_work(s, SIM_COMPUTE, 1500 + 4 * (double)count / sim_device_of(s->device)->bytes_per_s * 1e9, "Memset (Device)",
             4 * count);
    return CUDA_OK;
}

R cuPointerGetAttribute(void *value, int attribute, address at) {
    void *base = NULL;
    size_t bytes = 0;
    int ordinal = 0;
    sim_where where = sim_find((void *)at, &base, &bytes, &ordinal);
    TRY(where != SIM_NOWHERE, CUDA_INVALID_VALUE); /* memory that CUDA doesn't know: Triton refuses it */
    switch (attribute) {
    case POINTER_CONTEXT: *(void **)value = context_of(ordinal); break;
    case POINTER_MEMORY_TYPE: *(unsigned *)value = where == SIM_PINNED ? MEMORY_HOST : MEMORY_DEVICE; break;
    case POINTER_DEVICE: *(address *)value = at; break;
    case POINTER_HOST:
        TRY(where == SIM_PINNED, CUDA_INVALID_VALUE);
        *(address *)value = at;
        break;
    case POINTER_BUFFER_ID: *(uint64_t *)value = (uint64_t)(uintptr_t)base; break;
    case POINTER_IS_MANAGED: case POINTER_IPC_CAPABLE: *(unsigned *)value = 0; break;
    case POINTER_ORDINAL: *(int *)value = ordinal; break;
    case POINTER_RANGE_START: *(address *)value = (address)base; break;
    case POINTER_RANGE_BYTES: *(size_t *)value = bytes; break;
    default: return sim_missing("cuPointerGetAttribute with an attribute unknown here", CUDA_NOT_SUPPORTED);
    }
    return CUDA_OK;
}
R cuPointerGetAttributes(unsigned count, int *attributes, void **values, address at) {
    for (unsigned i = 0; i < count; i++) cuPointerGetAttribute(values[i], attributes[i], at);
    return CUDA_OK; /* what it can't tell it leaves, without an error */
}

/* ---- virtual memory: addresses, physical blocks, and which block lies where ---- */

typedef struct { int ordinal, references; size_t bytes; allocation_properties properties; } block;
typedef struct mapping { address at; size_t bytes; block *of; struct mapping *next; } mapping;
static mapping *mappings;
static pthread_mutex_t mapping_lock = PTHREAD_MUTEX_INITIALIZER;

R cuMemGetAllocationGranularity(size_t *bytes, const allocation_properties *p, int flags) {
    *bytes = SIM_PAGE;
    return CUDA_OK;
}
R cuMemAddressReserve(address *at, size_t bytes, size_t alignment, address hint, unsigned long long flags) {
    ENTER();
    *at = (address)sim_map(bytes);
    return *at ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}
R cuMemAddressFree(address at, size_t bytes) {
    munmap((void *)at, bytes);
    return CUDA_OK;
}
R cuMemCreate(block **made, size_t bytes, const allocation_properties *p, unsigned long long flags) {
    ENTER();
    TRY(is_device(p->location.id) && bytes % SIM_PAGE == 0, CUDA_INVALID_VALUE);
    TRY(sim_take(sim_device_of(p->location.id)->index, (int64_t)bytes), CUDA_OUT_OF_MEMORY);
    *made = malloc(sizeof **made);
    **made = (block){p->location.id, 1, bytes, *p};
    return CUDA_OK;
}
static void release(block *b) { /* its memory is free when nobody holds it and it is mapped nowhere */
    if (__atomic_sub_fetch(&b->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    sim_give(sim_device_of(b->ordinal)->index, (int64_t)b->bytes);
    free(b);
}
R cuMemRelease(block *b) { release(b); return CUDA_OK; }
R cuMemMap(address at, size_t bytes, size_t offset, block *b, unsigned long long flags) {
    ENTER();
    mapping *m = malloc(sizeof *m);
    pthread_mutex_lock(&mapping_lock);
    *m = (mapping){at, bytes, b, mappings}, mappings = m;
    pthread_mutex_unlock(&mapping_lock);
    __atomic_add_fetch(&b->references, 1, __ATOMIC_ACQ_REL);
    sim_claim((void *)at, bytes, b->ordinal);
    return CUDA_OK;
}
R cuMemUnmap(address at, size_t bytes) {
    pthread_mutex_lock(&mapping_lock);
    for (mapping **m = &mappings; *m;) {
        mapping *one = *m;
        if (one->at < at || one->at >= at + bytes) {
            m = &one->next;
            continue;
        }
        *m = one->next;
        sim_disclaim((void *)one->at);
        release(one->of);
        free(one);
    }
    pthread_mutex_unlock(&mapping_lock);
    madvise((void *)at, bytes, MADV_DONTNEED);
    return CUDA_OK;
}
R cuMemSetAccess(address at, size_t bytes, const void *descriptions, size_t count) { ENTER(); return CUDA_OK; }
R cuMemGetAllocationPropertiesFromHandle(allocation_properties *p, block *b) { *p = b->properties; return CUDA_OK; }
R cuMemRetainAllocationHandle(block **made, void *at) {
    R error = CUDA_INVALID_VALUE;
    pthread_mutex_lock(&mapping_lock);
    for (mapping *m = mappings; m; m = m->next)
        if ((address)at >= m->at && (address)at < m->at + m->bytes) {
            __atomic_add_fetch(&m->of->references, 1, __ATOMIC_ACQ_REL);
            *made = m->of, error = CUDA_OK;
        }
    pthread_mutex_unlock(&mapping_lock);
    return error;
}

/* ---- modules and launches ---- */

typedef struct function { const char *name; bool is_known; sim_code code; struct function *next; } function;
typedef struct {
    int ordinal;
    int64_t bytes;
    void *image; /* where it is a cubin */
    function *functions;
} module;

/* The modules of a device lie side by side in pages. */
static bool take_code(int ordinal, int64_t bytes) { /* or gives it back: less than 0 */
    static int64_t taken[SIM_DEVICES];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    int64_t before = (taken[ordinal] + SIM_PAGE - 1) / SIM_PAGE, after = (taken[ordinal] + bytes + SIM_PAGE - 1) / SIM_PAGE;
    int index = sim_device_of(ordinal)->index;
    bool fits = after <= before || sim_take(index, (after - before) * SIM_PAGE);
    if (after < before) sim_give(index, (before - after) * SIM_PAGE);
    if (fits) taken[ordinal] += bytes;
    pthread_mutex_unlock(&lock);
    return fits;
}

R cuModuleLoadData(module **made, const void *image) {
    ENTER();
    PASS(sim_enter_context());
    int64_t bytes = sim_here()->module_bytes;
    TRY(take_code(sim_current, bytes), CUDA_OUT_OF_MEMORY);
    *made = calloc(1, sizeof **made);
    **made = (module){.ordinal = sim_current, .bytes = bytes};
    size_t length = sim_code_bytes(image);
    if (length) (*made)->image = memcpy(malloc(length), image, length);
    return CUDA_OK;
}
R cuModuleLoadDataEx(module **made, const void *image, unsigned count, int *options, void **values) {
    return cuModuleLoadData(made, image);
}
R cuModuleLoad(module **made, const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    off_t length = file < 0 ? 0 : lseek(file, 0, SEEK_END);
    void *image = length > 0 ? mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    if (file >= 0) close(file);
    TRY(image != MAP_FAILED, CUDA_FILE_NOT_FOUND);
    R error = cuModuleLoadData(made, image);
    munmap(image, (size_t)length);
    return error;
}
R cuModuleUnload(module *m) {
    take_code(m->ordinal, -m->bytes);
    for (function *f = m->functions, *next; f; f = next) next = f->next, free(f);
    free(m->image);
    free(m);
    return CUDA_OK;
}
R cuModuleGetFunction(function **made, module *m, const char *name) {
    ENTER();
    sim_code code;
    bool is_known = sim_read_code(m->image, name, &code);
    TRY(is_known || !m->image, CUDA_NOT_FOUND);
    *made = malloc(sizeof **made);
    **made = (function){sim_name("%s", name), is_known, code, m->functions};
    m->functions = *made;
    return CUDA_OK;
}
R cuFuncGetAttribute(int *value, int attribute, function *f) {
    const sim_device *d = sim_here();
    switch (attribute) {
    case FUNC_REGISTERS: *value = f->is_known ? f->code.registers : 32; break;
    case FUNC_SHARED_BYTES: *value = f->is_known ? f->code.shared_bytes : 0; break;
    case FUNC_MAX_THREADS: *value = 1024; break;
    case FUNC_MAX_DYNAMIC_SHARED: *value = d->shared_bytes_per_block; break;
    case FUNC_PTX_VERSION: case FUNC_BINARY_VERSION: *value = 10 * d->major + d->minor; break;
    default: *value = 0;
    }
    return CUDA_OK;
}
R cuFuncSetAttribute(function *f, int attribute, int value) {
    return attribute < FUNC_COUNT ? CUDA_OK : CUDA_INVALID_VALUE;
}
R cuFuncSetCacheConfig(function *f, int config) { return CUDA_OK; }

/* A kernel's code says what each thread moves, once over. How often Inductor's reductions loop, their last two numbers
   say: rows and their length, of which each turn takes LOOP_ELEMENTS a thread. Other loops count as one turn. */
enum { LOOP_ELEMENTS = 4 };
static sim_cost cost_of(const function *f, const sim_launch *l) {
    if (!f->is_known || f->code.bytes + f->code.loop_bytes <= 0) return sim_cost_of(f->name, l);
    double threads = sim_threads(l), turns = 1, numel = 1;
    int numbers = 0;
    for (int i = f->code.parameters - 1; l->args && i >= 0 && numbers < 2; i--)
        if (f->code.parameter_bytes[i] == 4) numel *= *(const int32_t *)l->args[i], numbers++;
    if (numbers && !strncmp(f->name, "triton_red_", 11)) turns = numel / LOOP_ELEMENTS / threads;
    return (sim_cost){.bytes = threads * (f->code.bytes + f->code.loop_bytes * (turns > 1 ? turns : 1)),
                      .rate = SIM_FP32};
}

static R launch(const function *f, const driver_launch_config *c, void **args) {
    PASS(sim_refuses("cuLaunchKernel"));
    PASS(sim_enter_context());
    sim_stream *s = sim_stream_of(c->stream);
    TRY(!s->capture || !s->capture->invalid, CUDA_CAPTURE_INVALIDATED);
    sim_launch l = {{c->grid_x, c->grid_y, c->grid_z}, {c->block_x, c->block_y, c->block_z}, args};
    TRY(sim_launch_is_valid(&l), CUDA_INVALID_VALUE);
    TRY((int)c->shared_bytes <= sim_here()->shared_bytes_per_block, CUDA_INVALID_VALUE);
    sim_run(s, f->name, cost_of(f, &l), &l);
    return CUDA_OK;
}
R cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                 unsigned shared, void *stream, void **args, void **extra) {
    driver_launch_config c = {gx, gy, gz, bx, by, bz, shared, stream, NULL, 0};
    return launch(f, &c, args);
}
R cuLaunchKernelEx(const driver_launch_config *c, function *f, void **args, void **extra) { return launch(f, c, args); }
R cuLaunchCooperativeKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, void *stream, void **args) {
    return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, args, NULL);
}
R cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, function *f, int threads, size_t shared) {
    *blocks = sim_blocks_per_sm(sim_here(), threads, shared);
    return CUDA_OK;
}

/* A description of a tensor that only a kernel would read. */
enum { TENSOR_MAP_BYTES = 128 };
R cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *at, const uint64_t *sizes, const uint64_t *strides,
                         const unsigned *box, const unsigned *steps, int interleave, int swizzle, int l2, int fill) {
    memset(map, 0, TENSOR_MAP_BYTES);
    return CUDA_OK;
}

/* ---- functions by name: a plain one means its newest version ---- */

R cuGetProcAddress_v2(const char *name, void **f, int version, uint64_t flags, int *result) {
    char newest[128];
    snprintf(newest, sizeof newest, "%s_v2", name);
    void *own = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *f = own ? dlsym(own, newest) : NULL;
    if (own && !*f) *f = dlsym(own, name);
    if (result) *result = *f ? ENTRY_POINT_FOUND : ENTRY_POINT_NOT_FOUND;
    return *f ? CUDA_OK : CUDA_NOT_FOUND;
}
R cuGetProcAddress(const char *name, void **f, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, f, version, flags, NULL);
}
