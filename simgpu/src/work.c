/* Time: each stream has a time line on the host's clock, and each engine of a device one that all processes share.

   A launch adds to its stream's line and returns; a synchronisation sleeps until the line is reached; a full launch
   queue holds the host back. Work takes its engine's earliest idle span after all that its stream waits for. */
#define _GNU_SOURCE
#include "abi/cuda.h"
#include "core.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
void (*sim_on_work)(sim_stream *, sim_engine, const char *, int64_t, int64_t, size_t);
static void flush_trace(void);

int64_t sim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

void sim_wait_until(int64_t ns) {
    static __thread bool slack;
    if (!slack) slack = true, prctl(PR_SET_TIMERSLACK, 1000ul);
    const int64_t margin = 60000; /* a sleep ends this late at worst on an idle machine */
    if (ns - sim_now() > margin) {
        flush_trace();
        struct timespec t = {(ns - margin) / 1000000000, (ns - margin) % 1000000000};
        while (!sim_spins && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
    }
    while (sim_now() < ns) {}
}

/* ---- the trace: what each device really did, for tests to hold statements against ---- */

static FILE *trace;
static pid_t trace_pid;

static void open_trace(void) { /* within the lock; a forked child has a file of its own */
    const char *folder = getenv("SIMGPU_TRACE");
    trace_pid = getpid();
    trace = NULL;
    if (!folder || !*folder) return;
    char path[1100];
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/%d.tsv", folder, (int)trace_pid);
    trace = fopen(path, "ae");
    if (!trace) sim_say("the trace %s can't be written: %s", path, strerror(errno));
    else setvbuf(trace, NULL, _IOFBF, 1 << 16);
}

static void write_trace(const sim_stream *s, sim_engine engine, const char *name, int64_t begin, int64_t end, size_t bytes) {
    static const char *const engines[] = {"compute", "h2d", "d2h"};
    if (trace_pid != getpid()) open_trace();
    if (!trace) return;
    fprintf(trace, "%lld\t%lld\t%d\t%u\t%s\t%zu\t%s\n", (long long)begin, (long long)end, sim_device_of(s->device)->index,
            s->number, engines[engine], bytes, name);
}

static void flush_trace(void) {
    if (!trace || trace_pid != getpid()) return;
    pthread_mutex_lock(&lock);
    fflush(trace);
    pthread_mutex_unlock(&lock);
}
__attribute__((destructor)) static void at_exit(void) { flush_trace(); }

/* ---- streams ---- */

static sim_stream defaults[SIM_DEVICES], *streams;
static int blocking_streams; /* those that wait for the default stream, and it for them: torch makes none */

static bool is_blocking(const sim_stream *s) { return !(s->flags & STREAM_NON_BLOCKING); }

sim_stream *sim_stream_of(void *handle) {
    if ((uintptr_t)handle > 2) return handle;
    defaults[sim_current].device = sim_current;
    return &defaults[sim_current];
}

sim_stream *sim_stream_new(unsigned flags, int priority) {
    static unsigned made;
    sim_stream *s = calloc(1, sizeof *s);
    s->device = sim_current, s->flags = flags, s->priority = priority;
    pthread_mutex_lock(&lock);
    s->number = ++made, s->next = streams, streams = s, blocking_streams += is_blocking(s);
    pthread_mutex_unlock(&lock);
    return s;
}

void sim_stream_free(sim_stream *stream) {
    pthread_mutex_lock(&lock);
    for (sim_stream **s = &streams; *s; s = &(*s)->next)
        if (*s == stream) {
            *s = stream->next, blocking_streams -= is_blocking(stream);
            free(stream);
            break;
        }
    pthread_mutex_unlock(&lock);
}

void sim_all_streams(int ordinal, void (*see)(sim_stream *, void *), void *with) {
    pthread_mutex_lock(&lock);
    see(&defaults[ordinal], with);
    for (sim_stream *s = streams; s; s = s->next)
        if (s->device == ordinal) see(s, with);
    pthread_mutex_unlock(&lock);
}

static void latest(sim_stream *stream, void *ns) {
    if (stream->tail > *(int64_t *)ns) *(int64_t *)ns = stream->tail;
}

int64_t sim_device_tail(int ordinal) {
    int64_t ns = 0;
    sim_all_streams(ordinal, latest, &ns);
    return ns;
}

int64_t sim_tail(const sim_stream *stream) {
    int64_t ns = stream->tail;
    if (!__atomic_load_n(&blocking_streams, __ATOMIC_RELAXED)) return ns;
    pthread_mutex_lock(&lock);
    if (stream->number && is_blocking(stream)) latest(&defaults[stream->device], &ns);
    for (sim_stream *s = stream->number ? NULL : streams; s; s = s->next)
        if (s->device == stream->device && is_blocking(s)) latest(s, &ns);
    pthread_mutex_unlock(&lock);
    return ns;
}

/* ---- work ---- */

static void count_busy(int index, int64_t begin, int64_t end, int64_t now) {
    sim_bucket *buckets = sim_state()->process[sim_slot()].busy[index];
    int64_t horizon = (now / SIM_BUCKET_NS + SIM_BUCKETS / 2) * SIM_BUCKET_NS; /* beyond it lie buckets of the past */
    if (end > horizon) end = horizon;
    while (begin < end) {
        int64_t epoch = begin / SIM_BUCKET_NS, stop = (epoch + 1) * SIM_BUCKET_NS;
        sim_bucket *b = &buckets[epoch % SIM_BUCKETS];
        if (b->epoch != epoch) b->epoch = epoch, b->busy_ns = 0;
        b->busy_ns += (stop < end ? stop : end) - begin;
        begin = stop;
    }
}

/* Place work of this length on an engine's line, not before it is ready: in an idle span that is long enough, so that
   a stream that waits for something far ahead holds up no other, or at the line's end. */
static int64_t place(sim_line *line, int64_t ready, int64_t ns, int64_t now) {
    for (int i = 0; i < SIM_GAPS; i++) {
        sim_gap *gap = &line->gaps[i];
        int64_t from = gap->begin > ready ? gap->begin : ready;
        if (gap->end <= now || from + ns > gap->end) continue;
        if (gap->end - (from + ns) > from - gap->begin) gap->begin = from + ns; /* the larger rest stays a span */
        else gap->end = from;
        return from;
    }
    int64_t from = line->free_at > ready ? line->free_at : ready;
    if (from > line->free_at && from > now) {
        sim_gap *shortest = &line->gaps[0];
        for (int i = 1; i < SIM_GAPS; i++)
            if (line->gaps[i].end - line->gaps[i].begin < shortest->end - shortest->begin || line->gaps[i].end <= now)
                shortest = &line->gaps[i];
        *shortest = (sim_gap){line->free_at > now ? line->free_at : now, from};
    }
    line->free_at = from + ns;
    return from;
}

static sim_gap on_engine(int index, sim_engine engine, int64_t ready, double full_clock_ns) {
    sim_shared *state = sim_state();
    if (pthread_mutex_lock(&state->lock) == EOWNERDEAD) pthread_mutex_consistent(&state->lock);
    sim_line *line = &state->line[index][engine];
    int64_t at = line->free_at > ready ? line->free_at : ready;
    int64_t ns = (int64_t)(engine == SIM_COMPUTE ? full_clock_ns / sim_clock_share(index, at) : full_clock_ns);
    int64_t now = sim_now(), begin = place(line, ready, ns, now);
    if (engine == SIM_COMPUTE) {
        count_busy(index, begin, begin + ns, now);
        sim_warm(index, begin, begin + ns);
    }
    pthread_mutex_unlock(&state->lock);
    return (sim_gap){begin, begin + ns};
}

int64_t sim_work(sim_stream *stream, sim_engine engine, double ns, const char *name, size_t bytes) {
    if (stream->capture) {
        stream->capture->ns += ns, stream->capture->nodes++;
        if (stream->place < SIM_CAPTURED) stream->seen[stream->place]++;
        return 0;
    }
    sim_device *device = sim_device_of(stream->device);
    int slot = sim_slot();
    if (device->launch_ns > 0) sim_wait_until(sim_now() + (int64_t)device->launch_ns);
    unsigned depth = device->queue_depth < SIM_QUEUE ? (unsigned)device->queue_depth : SIM_QUEUE;
    pthread_mutex_lock(&lock);
    int64_t *entry = &stream->ends[stream->launched++ % depth], room_at = *entry;
    pthread_mutex_unlock(&lock);
    sim_wait_until(room_at); /* the launch queue is full: the host waits for the oldest to end */
    pthread_mutex_lock(&lock);
    int64_t now = sim_now(), ready = sim_tail(stream);
    sim_gap span = on_engine(device->index, engine, ready > now ? ready : now, ns);
    stream->tail = *entry = span.end;
    if (engine != SIM_COMPUTE) sim_state()->process[slot].moved_bytes[device->index][engine] += (int64_t)bytes;
    write_trace(stream, engine, name, span.begin, span.end, bytes);
    pthread_mutex_unlock(&lock);
    if (sim_on_work) sim_on_work(stream, engine, name, span.begin, span.end, bytes);
    return span.end;
}

int64_t sim_kernel(sim_stream *stream, double flops, sim_rate rate, double bytes, const char *name) {
    sim_device *d = sim_device_of(stream->device);
    double rate_flops = d->flops_per_s[rate];
    if (rate_flops <= 0) rate_flops = d->flops_per_s[SIM_FP32]; /* no units for it: what the others can do */
    double ns = flops / rate_flops * 1e9, moved_ns = bytes / d->bytes_per_s * 1e9;
    ns = ns > moved_ns ? ns : moved_ns;
    stream->last = name;
    return sim_work(stream, SIM_COMPUTE, ns > d->kernel_ns ? ns : d->kernel_ns, name, (size_t)bytes);
}

/* ---- names ---- */

static struct { const void *key; const char *name; } *names; /* open addressing; by address, or by text of its own */
static size_t name_room, name_count;

static size_t slot_of(const void *key) {
    size_t i = ((uintptr_t)key * 11400714819323198485ull >> 20) & (name_room - 1);
    while (names[i].key && names[i].key != key) i = (i + 1) & (name_room - 1);
    return i;
}

static void remember(const void *key, const char *name) {
    if (2 * (name_count + 1) > name_room) {
        size_t had = name_room;
        __typeof__(names) before = names;
        name_room = had ? 2 * had : 1 << 17;
        names = calloc(name_room, sizeof *names);
        for (size_t i = 0; i < had; i++)
            if (before[i].key) names[slot_of(before[i].key)] = before[i];
        free(before);
    }
    size_t i = slot_of(key);
    if (!names[i].key) name_count++;
    names[i].key = key, names[i].name = name;
}

void sim_name_function(const void *function, const char *name) {
    pthread_mutex_lock(&lock);
    remember(function, name);
    pthread_mutex_unlock(&lock);
}

const char *sim_function_name(const void *function) {
    pthread_mutex_lock(&lock);
    const char *name = name_room && names[slot_of(function)].key ? names[slot_of(function)].name : "kernel";
    pthread_mutex_unlock(&lock);
    return name;
}

const char *sim_name(const char *format, ...) {
    static struct entry { struct entry *next; char text[]; } *table[4096];
    char text[256];
    va_list rest;
    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    unsigned hash = 5381;
    for (const char *c = text; *c; c++) hash = hash * 33 + (unsigned char)*c;
    pthread_mutex_lock(&lock);
    struct entry *e = table[hash % 4096];
    while (e && strcmp(e->text, text)) e = e->next;
    if (!e) {
        e = malloc(sizeof *e + strlen(text) + 1);
        strcpy(e->text, text);
        e->next = table[hash % 4096], table[hash % 4096] = e;
    }
    pthread_mutex_unlock(&lock);
    return e->text;
}
