/* Stream capture and CUDA graphs. Of a graph matters how long its work takes: a replay is one piece of work, their sum,
   on the device that it was captured on. What a capture forbids breaks it, as it does in CUDA. */
#include "cudart.h"
#include <stdlib.h>
#include <string.h>

typedef cuda_error E;

typedef struct holder { void *object; unsigned count; struct holder *next; } holder;
typedef struct { sim_graph work; holder *held; } graph; /* also of an instance */
typedef struct capture { /* one that is under way */
    graph *into;
    bool fresh; /* the graph was made by it */
    uint64_t id;
    int mode;
    pthread_t thread;
    sim_stream *origin;
    struct capture *next;
} capture;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static capture *captures;
static int capture_count; /* read without the lock: mostly 0 */
static __thread int thread_mode = CAPTURE_GLOBAL;

static capture *find(uint64_t id) { /* within the lock */
    for (capture *c = captures; c; c = c->next)
        if (c->id == id) return c;
    return NULL;
}

static E spoil(sim_graph *work, E error) {
    work->invalid = true;
    return error;
}

/* ---- what a capture forbids ---- */

E sim_capture_forbids(void) {
    E error = CUDA_OK;
    if (!__atomic_load_n(&capture_count, __ATOMIC_ACQUIRE) || thread_mode == CAPTURE_RELAXED) return error;
    pthread_mutex_lock(&lock);
    for (capture *c = captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self());
        if (own ? c->mode != CAPTURE_RELAXED : c->mode == CAPTURE_GLOBAL && thread_mode == CAPTURE_GLOBAL)
            error = spoil(&c->into->work, CUDA_CAPTURE_UNSUPPORTED);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

E sim_capture_forbids_wait(sim_stream *s) {
    if (s->capture) return spoil(s->capture, CUDA_CAPTURE_UNSUPPORTED);
    return sim_capture_forbids();
}

E sim_capture_forbids_work(sim_stream *s) {
    E error = CUDA_OK;
    if (s->capture) return s->capture->invalid ? CUDA_CAPTURE_INVALIDATED : CUDA_OK;
    if (s->number || !__atomic_load_n(&capture_count, __ATOMIC_ACQUIRE)) return error;
    pthread_mutex_lock(&lock);
    for (capture *c = captures; c; c = c->next) /* the legacy stream waits for every blocking one */
        if (!(c->origin->flags & STREAM_NON_BLOCKING) && c->origin->device == s->device)
            error = spoil(&c->into->work, CUDA_CAPTURE_IMPLICIT);
    pthread_mutex_unlock(&lock);
    return error;
}

static void join(sim_stream *s, sim_graph *work, uint64_t id) {
    s->capture = work, s->capture_id = id, s->place = work->streams++;
    memset(s->seen, 0, sizeof s->seen);
}
static void see(sim_stream *s, const sim_event *event) {
    for (int i = 0; i < SIM_CAPTURED; i++)
        if (s->seen[i] < event->seen[i]) s->seen[i] = event->seen[i];
}

/* A stream waits for an event of a capture, and joins it; or a captured stream for an event from outside. */
E sim_capture_waits(sim_stream *s, const sim_event *event, unsigned flags) {
    E error = CUDA_OK;
    pthread_mutex_lock(&lock);
    capture *of_event = event->capture_id ? find(event->capture_id) : NULL;
    if (event->capture_id && !of_event) error = CUDA_CAPTURED_EVENT;
    else if (s->capture && of_event && s->capture_id != of_event->id) error = spoil(s->capture, CUDA_CAPTURE_MERGE);
    else if (of_event) {
        if (!s->capture) join(s, &of_event->into->work, of_event->id);
        see(s, event);
    } else if (event->recorded && !(flags & EVENT_WAIT_EXTERNAL)) error = spoil(s->capture, CUDA_CAPTURE_ISOLATION);
    pthread_mutex_unlock(&lock);
    return error;
}

/* ---- capture ---- */

static E begin(sim_stream *s, graph *into, int mode) {
    static uint64_t ids;
    TRY(s->number, CUDA_CAPTURE_UNSUPPORTED); /* the legacy stream can't be captured */
    TRY(!s->capture, CUDA_ILLEGAL_STATE);
    TRY(mode >= CAPTURE_GLOBAL && mode <= CAPTURE_RELAXED, CUDA_INVALID_VALUE);
    capture *c = calloc(1, sizeof *c);
    *c = (capture){.into = into, .fresh = !into, .mode = mode, .thread = pthread_self(), .origin = s};
    if (!into) c->into = calloc(1, sizeof *c->into);
    c->into->work.device = s->device, c->into->work.streams = 0;
    pthread_mutex_lock(&lock);
    c->id = ++ids, c->next = captures, captures = c;
    join(s, &c->into->work, c->id);
    __atomic_add_fetch(&capture_count, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return CUDA_OK;
}
E cudaStreamBeginCapture(void *stream, int mode) {
    ENTER_CONTEXT();
    return begin(sim_stream_of(stream), NULL, mode);
}
E cudaStreamBeginCaptureToGraph(void *stream, graph *into, void *const *nodes, const void *edges, size_t count,
                                int mode) {
    ENTER_CONTEXT();
    TRY(into, CUDA_INVALID_VALUE);
    return begin(sim_stream_of(stream), into, mode);
}

typedef struct { const sim_stream *origin; bool found; } unjoined;
static void find_unjoined(sim_stream *s, void *with) { /* work that nothing on the capture's first stream waits for */
    unjoined *u = with;
    if (s->capture == u->origin->capture && s->place < SIM_CAPTURED)
        u->found |= u->origin->seen[s->place] < s->seen[s->place];
}
static bool has_unjoined(const sim_stream *origin) {
    unjoined u = {origin, false};
    for (int i = 0; i < sim_cuda_count(); i++) sim_all_streams(i, find_unjoined, &u);
    return u.found;
}

static void leave(sim_stream *s, void *work) {
    if (s->capture == work) s->capture = NULL, s->capture_id = 0;
}
static void end(capture *c) { /* within the lock */
    for (capture **at = &captures; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    for (int i = 0; i < sim_cuda_count(); i++) sim_all_streams(i, leave, &c->into->work);
    __atomic_sub_fetch(&capture_count, 1, __ATOMIC_RELEASE);
}

E cudaStreamEndCapture(void *stream, graph **made) {
    sim_stream *s = sim_stream_of(stream);
    *made = NULL;
    TRY(s->capture, CUDA_ILLEGAL_STATE);
    pthread_mutex_lock(&lock);
    capture *c = find(s->capture_id);
    E error = c->origin != s ? spoil(s->capture, CUDA_CAPTURE_UNMATCHED)
            : c->mode != CAPTURE_RELAXED && !pthread_equal(c->thread, pthread_self()) ? CUDA_CAPTURE_WRONG_THREAD
            : c->into->work.invalid ? CUDA_CAPTURE_INVALIDATED
            : has_unjoined(s) ? CUDA_CAPTURE_UNJOINED : CUDA_OK;
    if (error != CUDA_CAPTURE_UNMATCHED && error != CUDA_CAPTURE_WRONG_THREAD) {
        end(c);
        if (!error) *made = c->into;
        else if (c->fresh) free(c->into);
        free(c);
    }
    pthread_mutex_unlock(&lock);
    return error ? sim_fail(error) : CUDA_OK;
}

static int status_of(const sim_stream *s) {
    return !s->capture ? CAPTURE_NONE : s->capture->invalid ? CAPTURE_INVALIDATED : CAPTURE_ACTIVE;
}
E cudaStreamIsCapturing(void *stream, int *status) {
    ENTER();
    *status = status_of(sim_stream_of(stream));
    return CUDA_OK;
}

/* Work of a capture hangs on nothing here: it is a sum. */
static E info(void *stream, int *status, unsigned long long *id, void **into, void ***nodes, void **edges,
              size_t *count) {
    sim_stream *s = sim_stream_of(stream);
    *status = status_of(s);
    if (id) *id = s->capture_id;
    if (into) *into = s->capture;
    if (nodes) *nodes = NULL;
    if (edges) *edges = NULL;
    if (count) *count = 0;
    return CUDA_OK;
}
#if CUDA_MAJOR < 13
E cudaStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **into, void ***nodes,
                              size_t *count) {
    ENTER();
    return info(stream, status, id, into, nodes, NULL, count);
}
E cudaStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, void **into, void ***nodes,
                              void **edges, size_t *count) {
    ENTER();
    return info(stream, status, id, into, nodes, edges, count);
}
#else
E cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id, void **into, void ***nodes, void **edges,
                           size_t *count) {
    ENTER();
    return info(stream, status, id, into, nodes, edges, count);
}
#endif
E cudaThreadExchangeStreamCaptureMode(int *mode) {
    int before = thread_mode;
    TRY(*mode >= CAPTURE_GLOBAL && *mode <= CAPTURE_RELAXED, CUDA_INVALID_VALUE);
    thread_mode = *mode, *mode = before;
    return CUDA_OK;
}

/* ---- objects that a graph keeps alive ---- */

typedef struct { void *of; void (*destroy)(void *); int references; } object;
enum { MOVE_REFERENCES = 1 };

E cudaUserObjectCreate(object **made, void *of, void (*destroy)(void *), unsigned references, unsigned flags) {
    *made = malloc(sizeof **made);
    **made = (object){of, destroy, (int)references};
    return CUDA_OK;
}
E cudaUserObjectRelease(object *o, unsigned count) {
    if (__atomic_sub_fetch(&o->references, (int)count, __ATOMIC_ACQ_REL) > 0) return CUDA_OK;
    o->destroy(o->of);
    free(o);
    return CUDA_OK;
}
static void hold(graph *g, object *o, unsigned count) {
    holder *h = malloc(sizeof *h);
    *h = (holder){o, count, g->held}, g->held = h;
}
E cudaGraphRetainUserObject(graph *g, object *o, unsigned count, unsigned flags) {
    if (!(flags & MOVE_REFERENCES)) __atomic_add_fetch(&o->references, (int)count, __ATOMIC_ACQ_REL);
    hold(g, o, count);
    return CUDA_OK;
}
static void drop(graph *g) {
    for (holder *h = g->held, *next; h; h = next) {
        next = h->next;
        cudaUserObjectRelease(h->object, h->count);
        free(h);
    }
    free(g);
}

/* ---- graphs ---- */

E cudaGraphCreate(graph **made, unsigned flags) {
    ENTER();
    *made = calloc(1, sizeof **made);
    return CUDA_OK;
}
E cudaGraphInstantiateWithFlags(graph **made, const graph *from, unsigned long long flags) {
    ENTER_CONTEXT();
    *made = malloc(sizeof **made);
    **made = (graph){.work = from->work};
    for (const holder *h = from->held; h; h = h->next) {
        __atomic_add_fetch(&((object *)h->object)->references, (int)h->count, __ATOMIC_ACQ_REL);
        hold(*made, h->object, h->count);
    }
    return CUDA_OK;
}
E cudaGraphInstantiate(graph **made, const graph *from, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(made, from, flags);
}
E cudaGraphUpload(graph *g, void *stream) { ENTER_CONTEXT(); return CUDA_OK; }
E cudaGraphLaunch(graph *g, void *stream) {
    ENTER_CONTEXT();
    sim_stream *s = sim_stream_of(stream);
    PASS(sim_capture_forbids_work(s));
    if (g->work.nodes) sim_work(s, SIM_COMPUTE, g->work.ns, "graph", 0);
    return CUDA_OK;
}
E cudaGraphDestroy(graph *g) { drop(g); return CUDA_OK; }
E cudaGraphExecDestroy(graph *g) { drop(g); return CUDA_OK; }
E cudaGraphDebugDotPrint(graph *g, const char *path, unsigned flags) {
    return sim_fail(sim_missing("cudaGraphDebugDotPrint", CUDA_NOT_SUPPORTED));
}
E cudaGraphGetNodes(graph *g, void **nodes, size_t *count) {
    size_t have = (size_t)g->work.nodes;
    if (nodes) /* a node is a place within the graph: nothing is asked of it but which it is */
        for (size_t i = 0; i < *count; i++) nodes[i] = i < have ? (char *)g + i + 1 : NULL;
    if (!nodes || *count > have) *count = have;
    return CUDA_OK;
}
