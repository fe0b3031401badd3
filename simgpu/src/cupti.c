/* libcupti.so.12 and .13: records of kernels, copies and launches for torch.profiler.

   While a profiler listens, each piece of work is remembered as it is queued. A flush writes it into the profiler's
   buffers as up to four records: for each stack of the profiler whose the launch was, the launch, and the work. */
#define _GNU_SOURCE
#include "abi/cupti.h"
#include "core.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    const char *name;
    int64_t begin, end, called;
    uint64_t whose[CUPTI_WHOSE_KINDS];
    size_t bytes;
    sim_engine engine;
    uint32_t kind, device, stream, thread;
    int grid[3], block[3];
    int priority;
    bool with_call;
} piece;
static piece *pieces;
static size_t piece_count, piece_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool enabled[CUPTI_KINDS];

enum { DEPTH = 64 };
static __thread struct { uint64_t ids[DEPTH]; int depth; } stacks[CUPTI_WHOSE_KINDS];

/* ---- remembering ---- */

static cupti_want_buffer want_buffer;
static cupti_full_buffer full_buffer;
static uint8_t *held; /* the profiler asks for records only once it was asked for a buffer */
static size_t held_bytes;

static void hold_buffer(void) { /* within the lock; a profiler that wants no more gives none */
    size_t most;
    if (!held && want_buffer) want_buffer(&held, &held_bytes, &most);
}

static bool starts(const char *name, const char *with) { return !strncmp(name, with, strlen(with)); }
/* What is no copy is a kernel, whichever engine it has: those of nccl don't hold up computing. */
static uint32_t kind_of(const char *name) {
    return starts(name, "Memcpy") ? CUPTI_COPY : starts(name, "Memset") ? CUPTI_SET : CUPTI_KERNEL;
}

static void remember(sim_stream *s, sim_engine engine, const char *name, int64_t begin, int64_t end, size_t bytes) {
    enum { FIRST_STREAM = 7 }; /* the number that CUPTI gives a context's default stream */
    if (!enabled[kind_of(name)]) return; /* what is wanted counts now: a profiler stops before it flushes */
    piece p = {.name = name, .kind = kind_of(name), .begin = begin, .end = end, .called = sim_now(), .bytes = bytes,
               .engine = engine, .device = (uint32_t)s->device, .stream = FIRST_STREAM + s->number,
               .thread = (uint32_t)pthread_self(), .priority = s->priority, .with_call = enabled[CUPTI_RUNTIME_CALL]};
    for (int i = 0; i < 3; i++) {
        p.grid[i] = s->grid[i] ? (int)s->grid[i] : 1;
        p.block[i] = s->block[i] ? (int)s->block[i] : 1;
    }
    for (int i = 0; enabled[CUPTI_WHOSE] && i < CUPTI_WHOSE_KINDS; i++)
        if (stacks[i].depth && stacks[i].depth <= DEPTH) p.whose[i] = stacks[i].ids[stacks[i].depth - 1];
    pthread_mutex_lock(&lock);
    hold_buffer();
    if (piece_count == piece_room) pieces = realloc(pieces, sizeof *pieces * (piece_room = 2 * piece_room + 1024));
    pieces[piece_count++] = p;
    pthread_mutex_unlock(&lock);
}

static int enable(uint32_t kind, bool on) {
    if (kind >= CUPTI_KINDS) return CUPTI_INVALID;
    enabled[kind] = on;
    sim_on_work = enabled[CUPTI_KERNEL] || enabled[CUPTI_COPY] || enabled[CUPTI_SET] ? remember : NULL;
    return CUPTI_OK;
}

static int fault_of(const char *name) {
    int code;
    return sim_fails(name, &code) ? code : CUPTI_OK;
}

int cuptiActivityEnable(uint32_t kind) { return fault_of(__func__) ?: enable(kind, true); }
int cuptiActivityDisable(uint32_t kind) { return fault_of(__func__) ?: enable(kind, false); }

int cuptiActivityPushExternalCorrelationId(uint32_t stack, uint64_t id) {
    uint32_t i = stack - CUPTI_WHOSE_FIRST;
    if (i >= CUPTI_WHOSE_KINDS) return CUPTI_INVALID;
    if (stacks[i].depth < DEPTH) stacks[i].ids[stacks[i].depth] = id;
    stacks[i].depth++;
    return CUPTI_OK;
}

int cuptiActivityPopExternalCorrelationId(uint32_t stack, uint64_t *id) {
    uint32_t i = stack - CUPTI_WHOSE_FIRST;
    if (i >= CUPTI_WHOSE_KINDS || !stacks[i].depth) return CUPTI_INVALID;
    int last = --stacks[i].depth;
    if (id) *id = last < DEPTH ? stacks[i].ids[last] : 0;
    return CUPTI_OK;
}

/* ---- the profiler's clock, which may be the processor's own counter ---- */

typedef struct { int64_t ours; uint64_t theirs; } moment;
static moment first, latest;

static uint64_t wall_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static cupti_clock their_clock = wall_clock;

static moment look(void) { /* at both clocks at once: the closest of a few tries */
    moment best = {0};
    int64_t shortest = INT64_MAX;
    for (int i = 0; i < 8; i++) {
        int64_t before = sim_now();
        uint64_t theirs = their_clock();
        int64_t after = sim_now();
        if (after - before >= shortest) continue;
        shortest = after - before, best = (moment){before + shortest / 2, theirs};
    }
    return best;
}

static void follow_clock(void) { /* within the lock: its rate is known from two looks, the farther apart the better */
    enum { APART_NS = 5000000 };
    if (!first.ours) first = look();
    if (!latest.ours) sim_wait_until(first.ours + APART_NS);
    if (sim_now() - first.ours >= APART_NS) latest = look();
}

static uint64_t their_time(int64_t ns) {
    double rate = (double)(latest.theirs - first.theirs) / (double)(latest.ours - first.ours);
    return first.theirs + (uint64_t)(int64_t)((double)(ns - first.ours) * rate);
}

int cuptiActivityRegisterTimestampCallback(cupti_clock clock) {
    pthread_mutex_lock(&lock);
    their_clock = clock ? clock : wall_clock;
    latest = (moment){0}, first = look();
    pthread_mutex_unlock(&lock);
    return CUPTI_OK;
}

/* ---- writing ---- */

typedef union { cupti_whose whose; cupti_call call; cupti_copy copy; cupti_set set; cupti_kernel kernel; } record;
enum { RECORDS = CUPTI_WHOSE_KINDS + 2 };

static size_t bytes_of(uint32_t kind) {
    switch (kind) {
    case CUPTI_WHOSE: return sizeof(cupti_whose);
    case CUPTI_RUNTIME_CALL: return sizeof(cupti_call);
    case CUPTI_COPY: return sizeof(cupti_copy);
    case CUPTI_SET: return sizeof(cupti_set);
    case CUPTI_KERNEL: return sizeof(cupti_kernel);
    default: return 0;
    }
}

static record write_work(const piece *p, uint32_t correlation) {
    uint64_t begin = their_time(p->begin), end = their_time(p->end);
    uint32_t kind = p->kind, context = p->device + 1; /* one context a device */
    if (kind == CUPTI_COPY) {
        uint8_t host = strstr(p->name, "Pageable") ? CUPTI_PAGEABLE : CUPTI_PINNED;
        bool in = p->engine == SIM_H2D, out = p->engine == SIM_D2H;
        return (record){.copy = {
            .kind = kind, .direction = in ? CUPTI_TO_DEVICE : out ? CUPTI_TO_HOST : CUPTI_WITHIN_DEVICE,
            .source = in ? host : CUPTI_DEVICE, .target = out ? host : CUPTI_DEVICE, .flags = 1, .bytes = p->bytes,
            .begin = begin, .end = end, .device = p->device, .context = context, .stream = p->stream,
            .correlation = correlation}};
    }
    if (kind == CUPTI_SET)
        return (record){.set = {
            .kind = kind, .bytes = p->bytes, .begin = begin, .end = end, .device = p->device, .context = context,
            .stream = p->stream, .correlation = correlation, .memory = CUPTI_DEVICE}};
    return (record){.kernel = {
        .kind = kind, .registers = 32, .begin = begin, .end = end, .device = p->device, .context = context,
        .stream = p->stream, .grid = {p->grid[0], p->grid[1], p->grid[2]},
        .block = {p->block[0], p->block[1], p->block[2]}, .correlation = correlation, .name = p->name,
        .priority = p->priority}};
}

static record write_call(const piece *p, uint32_t correlation) {
    enum { CALL_NS = 3000 };
    int64_t called = p->called < p->begin ? p->called : p->begin; /* before the work begins, though it be noted later */
    uint32_t call = p->kind == CUPTI_COPY ? CUPTI_CALL_MEMCPY_ASYNC : p->kind == CUPTI_SET ? CUPTI_CALL_MEMSET_ASYNC
                    : strcasestr(p->name, "graph") ? CUPTI_CALL_GRAPH_LAUNCH : CUPTI_CALL_LAUNCH;
    return (record){.call = {
        .kind = CUPTI_RUNTIME_CALL, .call = call, .begin = their_time(called - CALL_NS),
        .end = their_time(p->called), .process = (uint32_t)getpid(), .thread = p->thread, .correlation = correlation}};
}

static int write_records(const piece *p, record to[RECORDS]) {
    static uint32_t correlation; /* within the lock */
    int count = 0;
    correlation++;
    for (uint32_t i = 0; i < CUPTI_WHOSE_KINDS; i++)
        if (p->whose[i])
            to[count++] = (record){.whose = {
                .kind = CUPTI_WHOSE, .stack = CUPTI_WHOSE_FIRST + i, .external = p->whose[i],
                .correlation = correlation}};
    if (p->with_call) to[count++] = write_call(p, correlation);
    to[count++] = write_work(p, correlation);
    return count;
}

static size_t written; /* into the buffer that is held */

static void hand_over(void) {
    if (held) full_buffer(NULL, 0, held, held_bytes, written);
    held = NULL, written = 0;
}

static void write_piece(const piece *p) {
    record records[RECORDS];
    int count = write_records(p, records);
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += bytes_of(records[i].whose.kind);
    if (held && written + bytes > held_bytes) hand_over();
    hold_buffer();
    if (!held || bytes > held_bytes) return;
    for (int i = 0; i < count; i++) {
        memcpy(held + written, &records[i], bytes_of(records[i].whose.kind));
        written += bytes_of(records[i].whose.kind);
    }
}

int cuptiActivityFlushAll(uint32_t flags) {
    int code = fault_of(__func__);
    if (code) return code;
    pthread_mutex_lock(&lock);
    follow_clock();
    size_t kept = 0;
    int64_t now = sim_now();
    for (size_t i = 0; i < piece_count; i++)
        if (pieces[i].end > now && !(flags & CUPTI_FLUSH_UNFINISHED)) pieces[kept++] = pieces[i];
        else write_piece(&pieces[i]);
    piece_count = kept;
    hand_over();
    if (kept) hold_buffer();
    pthread_mutex_unlock(&lock);
    return CUPTI_OK;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **at) {
    uint8_t *next = *at ? *at + bytes_of(*(uint32_t *)*at) : buffer;
    if (next >= buffer + valid) return CUPTI_NO_MORE;
    *at = next;
    return CUPTI_OK;
}

int cuptiActivityRegisterCallbacks(cupti_want_buffer want, cupti_full_buffer full) {
    pthread_mutex_lock(&lock);
    want_buffer = want, full_buffer = full;
    pthread_mutex_unlock(&lock);
    return fault_of(__func__);
}

/* Nothing is ever dropped; called from within a flush. */
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) { *count = 0; return CUPTI_OK; }

/* ---- the rest ---- */

int cuptiGetVersion(uint32_t *version) { *version = CUPTI_VERSION; return fault_of(__func__); }

int cuptiGetResultString(int result, const char **words) {
    *words = result == CUPTI_OK ? "CUPTI_SUCCESS" : result == CUPTI_NO_MORE ? "CUPTI_ERROR_MAX_LIMIT_REACHED"
             : result == CUPTI_NOT_SUPPORTED ? "CUPTI_ERROR_NOT_SUPPORTED" : "CUPTI_ERROR_UNKNOWN";
    return CUPTI_OK;
}

int cuptiGetCallbackName(uint32_t domain, uint32_t call, const char **name) {
    static const struct { uint32_t call; const char *name; } known[] = {
        {CUPTI_CALL_MEMCPY_ASYNC, "cudaMemcpyAsync_v3020"}, {CUPTI_CALL_MEMSET_ASYNC, "cudaMemsetAsync_v3020"},
        {CUPTI_CALL_LAUNCH, "cudaLaunchKernel_v7000"}, {CUPTI_CALL_GRAPH_LAUNCH, "cudaGraphLaunch_v10000"}};
    for (size_t i = 0; domain == CUPTI_DOMAIN_RUNTIME && i < sizeof known / sizeof *known; i++)
        if (known[i].call == call) return *name = known[i].name, CUPTI_OK;
    return CUPTI_INVALID;
}

static int subscriber;
int cuptiSubscribe(void **handle, void *function, void *with) {
    int code = fault_of(__func__);
    if (!code) *handle = &subscriber;
    return code;
}
int cuptiUnsubscribe(void *handle) { return CUPTI_OK; }
int cuptiFinalize(void) { return CUPTI_OK; }

/* A subscriber is never called: of contexts that are made no profiler needs to know, of calls it would miss all. */
int cuptiEnableCallback(uint32_t on, void *handle, uint32_t domain, uint32_t call) {
    return !on || domain == CUPTI_DOMAIN_RESOURCE ? CUPTI_OK : sim_missing(__func__, CUPTI_NOT_SUPPORTED);
}
int cuptiEnableDomain(uint32_t on, void *handle, uint32_t domain) {
    return !on || domain == CUPTI_DOMAIN_RESOURCE ? CUPTI_OK : sim_missing(__func__, CUPTI_NOT_SUPPORTED);
}

/* Sizes of buffers, which calls to leave out, where events take their time: nothing that would change a record. */
int cuptiActivitySetAttribute(int attribute, size_t *bytes, void *value) { return CUPTI_OK; }
int cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t on) { return CUPTI_OK; }
int cuptiActivityEnableDriverApi(uint32_t call, uint8_t on) { return CUPTI_OK; }
int cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t on) { return CUPTI_OK; }
