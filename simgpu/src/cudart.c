/* libcudart: devices, memory, copies, streams, events and launches as torch calls them. Copies and memory are real. */
#define _GNU_SOURCE
#include "cudart.h"
#include "properties.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef cuda_error E;
enum { CUDA_VERSION = 1000 * CUDA_MAJOR + 10 * CUDA_MINOR };

/* ---- errors ---- */

static __thread E last_error;
E sim_fail(E error) { return last_error = error; }

E cudaGetLastError(void) {
    E error = last_error;
    last_error = sim_sticky_error();
    return error ? error : last_error;
}
E cudaPeekAtLastError(void) { return last_error ? last_error : sim_sticky_error(); }

const char *cudaGetErrorName(E e) {
    const char *name = sim_error_name(e, 0);
    return name ? name : "unrecognized error code";
}
const char *cudaGetErrorString(E e) {
    const char *text = sim_error_text(e);
    return text ? text : "unrecognized error code";
}

/* ---- devices ---- */

static bool is_device(int ordinal) { return ordinal >= 0 && ordinal < sim_cuda_count(); }

E cudaGetDeviceCount(int *count) {
    *count = 0;
    ENTER();
    *count = sim_cuda_count();
    return CUDA_OK;
}

/* A broken context keeps this and setting the same device anew sound: torch's guards call them while errors pass. */
E cudaGetDevice(int *ordinal) {
    TRY(sim_cuda_count(), CUDA_NO_DEVICE);
    *ordinal = sim_current;
    return CUDA_OK;
}

E cudaSetDevice(int ordinal) {
    TRY(sim_cuda_count(), CUDA_NO_DEVICE);
    TRY(is_device(ordinal), CUDA_INVALID_DEVICE);
    int before = sim_current;
    if (ordinal == before && sim_has_context(ordinal)) return CUDA_OK;
    sim_current = ordinal;
    E error = sim_refuses(__func__);
    if (!error) error = sim_enter_context(); /* as of CUDA 12 */
    if (error) sim_current = before;
    return error ? sim_fail(error) : CUDA_OK;
}

E cudaDriverGetVersion(int *version) { *version = CUDA_VERSION; return CUDA_OK; }
E cudaRuntimeGetVersion(int *version) { *version = CUDA_VERSION; return CUDA_OK; }

static int attribute_of(const sim_device *d, int attribute) {
    int value = 0;
    sim_attribute(d, attribute, &value);
    return value;
}

static void describe(device_properties *p, const sim_device *d) {
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", d->name);
    memcpy(p->uuid, d->uuid_bytes, sizeof p->uuid);
    p->memory_bytes = (size_t)d->memory_bytes;
    p->shared_per_block = (size_t)attribute_of(d, ATTR_SHARED_PER_BLOCK);
    p->shared_per_block_optin = (size_t)d->shared_bytes_per_block;
    p->shared_per_sm = (size_t)d->shared_bytes_per_sm;
    p->shared_reserved_per_block = (size_t)attribute_of(d, ATTR_SHARED_RESERVED);
    p->registers_per_block = p->registers_per_sm = attribute_of(d, ATTR_REGISTERS_PER_SM);
    p->warp_size = 32, p->max_pitch = INT32_MAX, p->max_threads_per_block = 1024, p->constant_bytes = 65536;
    for (int i = 0; i < 3; i++) {
        p->max_block[i] = attribute_of(d, ATTR_MAX_BLOCK_X + i);
        p->max_grid[i] = attribute_of(d, ATTR_MAX_GRID_X + i);
    }
    p->major = d->major, p->minor = d->minor, p->multiprocessors = d->multiprocessors;
    p->texture_alignment = p->surface_alignment = 512, p->texture_pitch_alignment = 32;
    p->maps_host_memory = p->concurrent_kernels = p->unified_addressing = p->stream_priorities = p->global_l1 = 1;
    p->local_l1 = p->preempts = p->host_pointers = p->cooperative_launch = p->host_register = p->memory_pools = 1;
    p->ecc = d->ecc, p->pci_bus = d->pci_bus, p->copy_engines = 2;
    p->memory_bus_bits = attribute_of(d, ATTR_MEMORY_BUS_BITS), p->l2_bytes = d->l2_bytes;
    p->threads_per_sm = d->threads_per_sm, p->blocks_per_sm = d->blocks_per_sm, p->cluster_launch = d->major >= 9;
#if CUDA_MAJOR < 13
    p->clock_khz = attribute_of(d, ATTR_CLOCK_KHZ), p->memory_clock_khz = attribute_of(d, ATTR_MEMORY_CLOCK_KHZ);
    p->overlaps = 1, p->fp32_to_fp64 = attribute_of(d, ATTR_FP32_TO_FP64);
#endif
}

static E properties(device_properties *p, int ordinal) {
    TRY(is_device(ordinal), CUDA_INVALID_DEVICE);
    describe(p, sim_device_of(ordinal));
    return CUDA_OK;
}
#if CUDA_MAJOR < 13
E cudaGetDeviceProperties_v2(device_properties *p, int ordinal) { ENTER(); return properties(p, ordinal); }
#else
E cudaGetDeviceProperties(device_properties *p, int ordinal) { ENTER(); return properties(p, ordinal); }
#endif

E cudaDeviceGetAttribute(int *value, int attribute, int ordinal) {
    ENTER();
    TRY(is_device(ordinal), CUDA_INVALID_DEVICE);
    *value = 0;
    if (!sim_attribute(sim_device_of(ordinal), attribute, value)) sim_note("device attribute %d answers 0", attribute);
    return CUDA_OK;
}

E cudaDeviceGetPCIBusId(char *id, int bytes, int ordinal) {
    ENTER();
    TRY(is_device(ordinal), CUDA_INVALID_DEVICE);
    snprintf(id, (size_t)bytes, "0000:%02X:00.0", (unsigned)sim_device_of(ordinal)->pci_bus);
    return CUDA_OK;
}
E cudaDeviceGetByPCIBusId(int *ordinal, const char *id) {
    unsigned domain, bus;
    ENTER();
    TRY(sscanf(id, "%x:%x:", &domain, &bus) == 2, CUDA_INVALID_VALUE);
    for (int i = 0; i < sim_cuda_count(); i++)
        if ((unsigned)sim_device_of(i)->pci_bus == bus) return *ordinal = i, CUDA_OK;
    return sim_fail(CUDA_INVALID_DEVICE);
}
E cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { ENTER(); *least = 0, *greatest = -5; return CUDA_OK; }
E cudaDeviceCanAccessPeer(int *can, int ordinal, int peer) {
    ENTER();
    TRY(is_device(ordinal) && is_device(peer), CUDA_INVALID_DEVICE);
    *can = sim_are_peers(ordinal, peer);
    return CUDA_OK;
}
E cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    static bool enabled[SIM_DEVICES][SIM_DEVICES];
    ENTER_CONTEXT();
    TRY(is_device(peer), CUDA_INVALID_DEVICE);
    TRY(sim_are_peers(sim_current, peer), CUDA_PEER_ACCESS_UNSUPPORTED);
    TRY(!enabled[sim_current][peer], CUDA_PEER_ACCESS_ALREADY_ENABLED);
    enabled[sim_current][peer] = true;
    return CUDA_OK;
}
E cudaDeviceSynchronize(void) {
    ENTER_CONTEXT();
    PASS(sim_capture_forbids());
    sim_wait_until(sim_device_tail(sim_current));
    return sim_sticky_error() ? sim_fail(sim_sticky_error()) : CUDA_OK;
}
E cudaProfilerStart(void) { return CUDA_OK; }
E cudaProfilerStop(void) { return CUDA_OK; }

/* ---- memory ---- */

static E allocate(void **at, size_t bytes) {
    *at = NULL;
    if (bytes) TRY(*at = sim_malloc(bytes), CUDA_OUT_OF_MEMORY);
    return CUDA_OK;
}

E cudaMalloc(void **at, size_t bytes) {
    ENTER_CONTEXT();
    PASS(sim_capture_forbids());
    return allocate(at, bytes);
}
E cudaFree(void *at) {
    ENTER_CONTEXT();
    PASS(sim_capture_forbids());
    if (!at) return CUDA_OK;
    sim_wait_until(sim_device_tail(sim_current)); /* as the driver does */
    TRY(sim_free(at), CUDA_INVALID_VALUE);
    return CUDA_OK;
}
E cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    ENTER_CONTEXT();
    const sim_device *d = sim_here();
    int64_t left = d->memory_bytes - sim_used_bytes(d->index);
    *total = (size_t)d->memory_bytes, *free_bytes = left > 0 ? (size_t)left : 0;
    return CUDA_OK;
}

/* Stream-ordered memory. A pool of the driver's would carve small blocks out of a page; here each takes its own. */
static int64_t pool_bytes[SIM_DEVICES], pool_high_bytes[SIM_DEVICES];
enum { POOL_RESERVED = 5, POOL_RESERVED_HIGH, POOL_USED, POOL_USED_HIGH };

E cudaMallocAsync(void **at, size_t bytes, void *stream) {
    ENTER_CONTEXT();
    PASS(allocate(at, bytes));
    size_t got = 0;
    if (*at) sim_find(*at, NULL, &got, NULL);
    int64_t now = __atomic_add_fetch(&pool_bytes[sim_current], (int64_t)got, __ATOMIC_RELAXED);
    if (now > pool_high_bytes[sim_current]) pool_high_bytes[sim_current] = now;
    return CUDA_OK;
}
E cudaFreeAsync(void *at, void *stream) {
    size_t bytes = 0;
    int ordinal = 0;
    ENTER();
    if (!at) return CUDA_OK;
    sim_find(at, NULL, &bytes, &ordinal);
    TRY(sim_free(at), CUDA_INVALID_VALUE);
    __atomic_sub_fetch(&pool_bytes[ordinal], (int64_t)bytes, __ATOMIC_RELAXED);
    return CUDA_OK;
}
E cudaDeviceGetDefaultMemPool(void **pool, int ordinal) {
    TRY(is_device(ordinal), CUDA_INVALID_DEVICE);
    *pool = (void *)(uintptr_t)(ordinal + 1);
    return CUDA_OK;
}
E cudaMemPoolGetAttribute(void *pool, int attribute, void *value) {
    int ordinal = (int)(uintptr_t)pool - 1;
    TRY(is_device(ordinal), CUDA_INVALID_VALUE);
    bool current = attribute == POOL_RESERVED || attribute == POOL_USED;
    bool high = attribute == POOL_RESERVED_HIGH || attribute == POOL_USED_HIGH;
    *(uint64_t *)value = (uint64_t)(current ? pool_bytes[ordinal] : high ? pool_high_bytes[ordinal] : 0);
    return CUDA_OK;
}
E cudaMemPoolSetAttribute(void *pool, int attribute, void *value) {
    int ordinal = (int)(uintptr_t)pool - 1;
    TRY(is_device(ordinal), CUDA_INVALID_VALUE);
    if (attribute == POOL_RESERVED_HIGH || attribute == POOL_USED_HIGH) pool_high_bytes[ordinal] = pool_bytes[ordinal];
    return CUDA_OK;
}
E cudaMemPoolSetAccess(void *pool, const void *descriptions, size_t count) { return CUDA_OK; }
E cudaMemPoolTrimTo(void *pool, size_t keep) { return CUDA_OK; } /* nothing is kept */
E cudaDeviceGetGraphMemAttribute(int ordinal, int attribute, void *value) { *(uint64_t *)value = 0; return CUDA_OK; }
E cudaDeviceSetGraphMemAttribute(int ordinal, int attribute, void *value) { return CUDA_OK; }

E cudaHostAlloc(void **at, size_t bytes, unsigned flags) {
    *at = NULL;
    ENTER_CONTEXT();
    PASS(sim_capture_forbids());
    if (!bytes) return CUDA_OK;
    TRY(*at = sim_map(bytes), CUDA_OUT_OF_MEMORY);
    madvise(*at, bytes, MADV_DOFORK);
    if (!sim_pin(*at, bytes, true)) {
        munmap(*at, bytes);
        *at = NULL;
        return sim_fail(CUDA_OUT_OF_MEMORY);
    }
    memset(*at, 0, bytes); /* pinned pages are there at once */
    return CUDA_OK;
}
E cudaMallocHost(void **at, size_t bytes) { return cudaHostAlloc(at, bytes, 0); }
E cudaFreeHost(void *at) {
    ENTER();
    TRY(!at || sim_unpin(at), CUDA_INVALID_VALUE);
    return CUDA_OK;
}
E cudaHostRegister(void *at, size_t bytes, unsigned flags) {
    ENTER_CONTEXT();
    TRY(sim_find(at, NULL, NULL, NULL) == SIM_NOWHERE, CUDA_ALREADY_REGISTERED);
    TRY(sim_pin(at, bytes, false), CUDA_OUT_OF_MEMORY);
    return CUDA_OK;
}
E cudaHostUnregister(void *at) {
    ENTER();
    TRY(sim_unpin(at), CUDA_NOT_REGISTERED);
    return CUDA_OK;
}
E cudaPointerGetAttributes(pointer_attributes *a, const void *at) {
    ENTER();
    memset(a, 0, sizeof *a);
    sim_where where = sim_find(at, NULL, NULL, &a->device);
    a->type = where == SIM_ON_DEVICE ? MEMORY_DEVICE : where == SIM_PINNED ? MEMORY_HOST : MEMORY_UNREGISTERED;
    if (where == SIM_NOWHERE) a->device = -2; /* what CUDA says of memory that it doesn't know */
    else a->device_pointer = (void *)at;
    if (where == SIM_PINNED) a->host_pointer = (void *)at;
    return CUDA_OK;
}

/* ---- copies ---- */

enum { COPY_LATENCY_NS = 1500, STAGED_BYTES = 65536 /* a shorter pageable copy is staged: the host need not wait */ };

typedef struct {
    int kind;
    bool pageable, between; /* between two devices */
    int from, to;           /* ordinals, where they are devices */
} route;

static route route_of(const void *to, const void *from, int kind) {
    route r = {.kind = kind};
    sim_where there = sim_find(to, NULL, NULL, &r.to), here = sim_find(from, NULL, NULL, &r.from);
    bool onto = there == SIM_ON_DEVICE, off = here == SIM_ON_DEVICE;
    if (kind == COPY_BY_ADDRESS)
        r.kind = onto ? (off ? COPY_WITHIN_DEVICE : COPY_TO_DEVICE) : off ? COPY_TO_HOST : COPY_HOST_TO_HOST;
    r.between = onto && off && r.to != r.from;
    r.pageable = r.kind != COPY_WITHIN_DEVICE && (r.kind == COPY_TO_DEVICE ? here : there) != SIM_PINNED;
    return r;
}

static const char *name_of(const route *r) {
    if (r->between) return "Memcpy PtoP";
    switch (r->kind) {
    case COPY_WITHIN_DEVICE: return "Memcpy DtoD";
    case COPY_TO_DEVICE: return r->pageable ? "Memcpy HtoD (Pageable -> Device)" : "Memcpy HtoD (Pinned -> Device)";
    case COPY_TO_HOST: return r->pageable ? "Memcpy DtoH (Device -> Pageable)" : "Memcpy DtoH (Device -> Pinned)";
    default: return "Memcpy HtoH";
    }
}

static int64_t queue_copy(sim_stream *s, const route *r, size_t bytes) {
    const sim_device *d = sim_device_of(s->device);
    double per_s = r->between ? sim_peer_bytes_per_s(r->from, r->to)
                 : r->kind == COPY_WITHIN_DEVICE ? d->bytes_per_s / 2 /* read and written */
                 : r->pageable ? d->pageable_bytes_per_s : d->pinned_bytes_per_s;
    sim_engine engine = r->kind == COPY_TO_DEVICE ? SIM_H2D
                      : r->kind == COPY_WITHIN_DEVICE && !r->between ? SIM_COMPUTE : SIM_D2H;
    return sim_work(s, engine, COPY_LATENCY_NS + (double)bytes / per_s * 1e9, name_of(r), bytes);
}

static void say_empty(const route *r, size_t bytes) { /* what is read back will be looked at */
    static bool said;
    if (r->kind != COPY_TO_HOST || __atomic_exchange_n(&said, true, __ATOMIC_RELAXED)) return;
    sim_say("a copy of %zu bytes to the host moves no data, as all that are longer than SIMGPU_COPY_LIMIT, %lld", bytes,
            (long long)sim_copy_limit_bytes);
}

static E copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, int kind,
                   sim_stream *s, bool wait) {
    if (!width || !rows) return CUDA_OK;
    route r = route_of(to, from, kind);
    PASS(sim_capture_forbids_work(s));
    if (s->capture && (wait || r.pageable)) return sim_fail(sim_capture_forbids_wait(s));
    if ((int64_t)(width * rows) > sim_copy_limit_bytes) say_empty(&r, width * rows);
    else
        for (size_t i = 0; i < rows; i++)
            memmove((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    if (r.kind == COPY_TO_HOST && rows == 1) sim_read_back(s, to, width);
    int64_t end = queue_copy(s, &r, width * rows);
    if (wait || (r.pageable && (r.kind != COPY_TO_DEVICE || width * rows > STAGED_BYTES))) sim_wait_until(end);
    return CUDA_OK;
}
static E copy(void *to, const void *from, size_t bytes, int kind, sim_stream *s, bool wait) {
    return copy_rows(to, 0, from, 0, bytes, 1, kind, s, wait);
}

E cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    ENTER_CONTEXT();
    PASS(sim_capture_forbids());
    return copy(to, from, bytes, kind, sim_stream_of(NULL), kind != COPY_WITHIN_DEVICE);
}
E cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    ENTER_CONTEXT();
    return copy(to, from, bytes, kind, sim_stream_of(stream), false);
}
E cudaMemcpyPeerAsync(void *to, int device, const void *from, int other, size_t bytes, void *stream) {
    ENTER_CONTEXT();
    TRY(is_device(device) && is_device(other), CUDA_INVALID_DEVICE);
    return copy(to, from, bytes, COPY_WITHIN_DEVICE, sim_stream_of(stream), false);
}
E cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, int kind,
                    void *stream) {
    ENTER_CONTEXT();
    return copy_rows(to, to_pitch, from, from_pitch, width, rows, kind, sim_stream_of(stream), false);
}
E cudaMemsetAsync(void *at, int byte, size_t bytes, void *stream) {
    ENTER_CONTEXT();
    sim_stream *s = sim_stream_of(stream);
    PASS(sim_capture_forbids_work(s));
    if (sim_find(at, NULL, NULL, NULL) == SIM_ON_DEVICE) sim_set(at, byte, bytes);
    else memset(at, byte, bytes);
    sim_work(s, SIM_COMPUTE, COPY_LATENCY_NS + (double)bytes / sim_device_of(s->device)->bytes_per_s * 1e9,
             "Memset (Device)", bytes);
    return CUDA_OK;
}
E cudaMemset(void *at, int byte, size_t bytes) { return cudaMemsetAsync(at, byte, bytes, NULL); }

/* A variable of a kernel's file: its shadow on the host is as large and stands for it. */
E cudaGetSymbolAddress(void **at, const void *symbol) { ENTER(); *at = (void *)symbol; return CUDA_OK; }
E cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind) {
    return cudaMemcpy((char *)symbol + offset, from, bytes, COPY_TO_DEVICE);
}

/* ---- streams and events ---- */

E cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    ENTER_CONTEXT();
    *stream = sim_stream_new(flags, priority);
    return CUDA_OK;
}
E cudaStreamCreateWithFlags(void **stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
E cudaStreamCreate(void **stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
E cudaStreamDestroy(void *stream) { ENTER(); sim_stream_free(stream); return CUDA_OK; }
E cudaStreamGetPriority(void *stream, int *priority) {
    ENTER();
    *priority = sim_stream_of(stream)->priority;
    return CUDA_OK;
}
E cudaStreamGetDevice(void *stream, int *ordinal) { ENTER(); *ordinal = sim_stream_of(stream)->device; return CUDA_OK; }
E cudaStreamQuery(void *stream) {
    ENTER_CONTEXT();
    sim_stream *s = sim_stream_of(stream);
    PASS(sim_capture_forbids_wait(s));
    return sim_now() >= sim_tail(s) ? CUDA_OK : sim_fail(CUDA_NOT_READY);
}
E cudaStreamSynchronize(void *stream) {
    ENTER_CONTEXT();
    sim_stream *s = sim_stream_of(stream);
    PASS(sim_capture_forbids_wait(s));
    sim_wait_until(sim_tail(s));
    PASS(sim_refuses("")); /* the device may have been lost meanwhile */
    return CUDA_OK;
}

/* Host functions run when the stream comes to them. The caller waits for it and runs them: it loses its lead, and the
   order holds. A graph would have to call them at each replay. */
static E come_to(sim_stream *s, const char *call) {
    if (s->capture) return sim_missing(sim_name("%s in a capture", call), CUDA_NOT_SUPPORTED);
    sim_wait_until(sim_tail(s));
    return CUDA_OK;
}
E cudaStreamAddCallback(void *stream, void (*f)(void *, E, void *), void *with, unsigned flags) {
    ENTER_CONTEXT();
    PASS(come_to(sim_stream_of(stream), __func__));
    f(stream, CUDA_OK, with);
    return CUDA_OK;
}
E cudaLaunchHostFunc(void *stream, void (*f)(void *), void *with) {
    ENTER_CONTEXT();
    PASS(come_to(sim_stream_of(stream), __func__));
    f(with);
    return CUDA_OK;
}

E cudaEventCreateWithFlags(sim_event **event, unsigned flags) {
    ENTER_CONTEXT();
    *event = calloc(1, sizeof **event);
    (*event)->flags = flags;
    return CUDA_OK;
}
E cudaEventCreate(sim_event **event) { return cudaEventCreateWithFlags(event, 0); }
E cudaEventDestroy(sim_event *event) { free(event); return CUDA_OK; }
E cudaEventRecordWithFlags(sim_event *event, void *stream, unsigned flags) {
    ENTER_CONTEXT();
    sim_stream *s = sim_stream_of(stream);
    TRY(event, CUDA_INVALID_HANDLE);
    event->capture_id = s->capture ? s->capture_id : 0;
    memcpy(event->seen, s->seen, sizeof event->seen);
    if (s->capture) return CUDA_OK;
    int64_t now = sim_now(), tail = sim_tail(s);
    event->at = tail > now ? tail : now, event->recorded = true;
    return CUDA_OK;
}
E cudaEventRecord(sim_event *event, void *stream) { return cudaEventRecordWithFlags(event, stream, 0); }
E cudaEventQuery(sim_event *event) {
    ENTER();
    PASS(sim_capture_forbids());
    TRY(!event->capture_id, CUDA_CAPTURED_EVENT);
    return !event->recorded || sim_now() >= event->at ? CUDA_OK : sim_fail(CUDA_NOT_READY);
}
E cudaEventSynchronize(sim_event *event) {
    ENTER();
    PASS(sim_capture_forbids());
    TRY(!event->capture_id, CUDA_CAPTURED_EVENT);
    if (event->recorded) sim_wait_until(event->at);
    PASS(sim_refuses(""));
    return CUDA_OK;
}
E cudaEventElapsedTime(float *ms, sim_event *from, sim_event *to) {
    ENTER();
    TRY(from->recorded && to->recorded && !((from->flags | to->flags) & EVENT_DISABLE_TIMING), CUDA_INVALID_HANDLE);
    TRY(sim_now() >= from->at && sim_now() >= to->at, CUDA_NOT_READY);
    *ms = (float)((double)(to->at - from->at) / 1e6);
    return CUDA_OK;
}
E cudaStreamWaitEvent(void *stream, sim_event *event, unsigned flags) {
    ENTER_CONTEXT();
    sim_stream *s = sim_stream_of(stream);
    if (s->capture || event->capture_id) PASS(sim_capture_waits(s, event, flags));
    else if (event->recorded && event->at > s->tail) s->tail = event->at;
    return CUDA_OK;
}

/* ---- kernels ---- */

static __thread struct { dim3 grid, block; size_t shared; void *stream; } pushed;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    pushed.grid = grid, pushed.block = block, pushed.shared = shared, pushed.stream = stream;
    return 0;
}
E __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared, *(void **)stream = pushed.stream;
    return CUDA_OK;
}
void **__cudaRegisterFatBinary(void *binary) { static void *handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void **handle) { }
void __cudaUnregisterFatBinary(void **handle) { }
char __cudaInitModule(void **handle) { return 1; }
void __cudaRegisterVar(void **handle, char *at, char *name, const char *text, int external, size_t bytes, int constant,
                       int global) {}
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *thread,
                            void *block, dim3 *block_dim, dim3 *grid_dim, int *warp) {
    sim_name_function(host, name);
}

static E launch(const char *call, const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                void *stream) {
    PASS(sim_refuses(call));
    PASS(sim_enter_context());
    sim_stream *s = sim_stream_of(stream);
    PASS(sim_capture_forbids_work(s));
    sim_launch l = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, args};
    TRY(sim_launch_is_valid(&l), CUDA_INVALID_CONFIGURATION);
    TRY((int)shared <= sim_device_of(s->device)->shared_bytes_per_block, CUDA_INVALID_VALUE);
    const char *name = sim_function_name(function);
    sim_cost cost = sim_cost_of(name, &l);
    if (args) sim_compute(name, &l);
    sim_run(s, name, cost, &l);
    return CUDA_OK;
}
E cudaLaunchKernel(const void *f, dim3 grid, dim3 block, void **args, size_t shared, void *stream) {
    return launch("cudaLaunchKernel", f, grid, block, args, shared, stream);
}
E cudaLaunchCooperativeKernel(const void *f, dim3 grid, dim3 block, void **args, size_t shared, void *stream) {
    return launch("cudaLaunchCooperativeKernel", f, grid, block, args, shared, stream);
}
E cudaLaunchKernelExC(const launch_config *c, const void *f, void **args) {
    return launch("cudaLaunchKernel", f, c->grid, c->block, args, c->shared_bytes, c->stream);
}
/* As of CUDA 13 compiled code asks for a kernel's handle once: the function's address serves. */
E __cudaGetKernel(const void **kernel, const void *function) { *kernel = function; return CUDA_OK; }
E __cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, void *stream) {
    return launch("cudaLaunchKernel", kernel, grid, block, args, shared, stream);
}

E cudaFuncGetAttributes(function_attributes *a, const void *function) {
    ENTER_CONTEXT();
    const sim_device *d = sim_here();
    memset(a, 0, sizeof *a);
    a->max_threads = 1024, a->registers = 32, a->ptx_version = a->binary_version = 10 * d->major + d->minor;
    a->max_dynamic_shared_bytes = d->shared_bytes_per_block;
    return CUDA_OK;
}
E cudaFuncSetAttribute(const void *function, int attribute, int value) { ENTER(); return CUDA_OK; }
E cudaKernelSetAttributeForDevice(void *kernel, int attribute, int value, int ordinal) { ENTER(); return CUDA_OK; }
E cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *f, int threads, size_t shared,
                                                         unsigned flags) {
    ENTER();
    *blocks = sim_blocks_per_sm(sim_here(), threads, shared);
    return CUDA_OK;
}
E cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *f, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads, shared, 0);
}

/* ---- the driver's functions, asked for by name ---- */

E cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned version, unsigned long long flags,
                                   int *result) {
    static int (*ask)(const char *, void **, int, uint64_t, int *);
    *f = NULL;
    if (!ask) {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
        if (driver) ask = (int (*)(const char *, void **, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2");
    }
    if (ask) ask(name, f, (int)version, flags, NULL);
    if (!*f) sim_note("the driver has no function %s", name);
    if (result) *result = *f ? ENTRY_POINT_FOUND : ENTRY_POINT_NOT_FOUND;
    return CUDA_OK;
}
E cudaGetDriverEntryPoint(const char *name, void **f, unsigned long long flags, int *result) {
    return cudaGetDriverEntryPointByVersion(name, f, CUDA_VERSION, flags, result);
}

/* ---- memory of other processes: not simulated ---- */

#define NOT_SIMULATED(name, ...) E name(__VA_ARGS__) { return sim_fail(sim_missing(#name, CUDA_NOT_SUPPORTED)); }
NOT_SIMULATED(cudaIpcGetMemHandle, void *handle, void *at)
NOT_SIMULATED(cudaIpcCloseMemHandle, void *at)
NOT_SIMULATED(cudaIpcGetEventHandle, void *handle, void *event)
typedef struct { char bytes[64]; } ipc_handle;
NOT_SIMULATED(cudaIpcOpenMemHandle, void **at, ipc_handle handle, unsigned flags)
NOT_SIMULATED(cudaIpcOpenEventHandle, void **event, ipc_handle handle)
