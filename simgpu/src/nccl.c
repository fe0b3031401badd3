/* libnccl.so.2: collectives between processes of one host, with the arithmetic done.

   An operation blocks its host thread until all ranks have called it: only then is known when it begins, and the ranks'
   data is whole. A wait ends with an error when a rank's process has died or the communicator is aborted. */
#define _GNU_SOURCE
#include "nccl_parts.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static nccl_result fault_of(const char *name) {
    int code;
    return sim_fails(name, &code) ? nccl_fail(NULL, (nccl_result)code, "%s fails, as SIMGPU_FAIL says", name) : NCCL_OK;
}
#define OR_RETURN(refused) do { nccl_result result_ = (refused); if (result_) return result_; } while (0)

/* ---- groups: what is called within one runs at its end, each communicator's part on a thread of its own ---- */

typedef struct { nccl_comm *comm; nccl_op *ops; int count; bool joins; nccl_result result; } part;
static __thread struct { int depth, count, room, joining; nccl_op *ops; nccl_comm *joins[NCCL_RANKS]; } group;

static void *run_part(void *with) {
    part *p = with;
    sim_current = p->comm->device;
    p->result = p->joins ? nccl_join(p->comm) : nccl_run(p->comm, p->ops, p->count);
    return NULL;
}

static nccl_result run_parts(part parts[], int count) {
    pthread_t threads[2 * NCCL_RANKS];
    int was = sim_current, started = 0;
    nccl_result result = NCCL_OK;
    while (started + 1 < count && pthread_create(&threads[started], NULL, run_part, &parts[started]) == 0) started++;
    for (int i = started; i < count; i++) run_part(&parts[i]); /* the last one here */
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < count && !result; i++) result = parts[i].result;
    sim_current = was;
    return result;
}

static nccl_result run_group(void) {
    part parts[2 * NCCL_RANKS];
    int count = 0;
    for (int i = 0; i < group.joining; i++) parts[count++] = (part){.comm = group.joins[i], .joins = true};
    group.joining = 0;
    nccl_result result = count ? run_parts(parts, count) : NCCL_OK;
    nccl_op *ops = group.ops, *sorted = malloc((size_t)(group.count + 1) * sizeof *sorted);
    int left = group.count, at = 0;
    for (count = 0; left && count < 2 * NCCL_RANKS; count++) { /* by communicator, each one's in the order of calls */
        part p = {.comm = ops[0].comm, .ops = sorted + at};
        int kept = 0;
        for (int i = 0; i < left; i++)
            if (ops[i].comm == p.comm) sorted[at++] = ops[i], p.count++;
            else ops[kept++] = ops[i];
        left = kept, parts[count] = p;
    }
    group.count = 0;
    if (!result && count) result = run_parts(parts, count);
    free(sorted);
    return result;
}

nccl_result ncclGroupStart(void) { group.depth++; return NCCL_OK; }

nccl_result ncclGroupEnd(void) {
    if (!group.depth) return nccl_fail(NULL, NCCL_INVALID_USAGE, "ncclGroupEnd: not in a group call.");
    if (--group.depth) return NCCL_OK;
    nccl_result refused = fault_of(__func__), result = run_group();
    return refused ? refused : result;
}

nccl_result ncclGroupSimulateEnd(nccl_estimate *estimate) { /* how long the group would take; it is not run */
    double ns = 0;
    for (int i = 0; i < group.count; i++) ns += nccl_estimated_ns(&group.ops[i]);
    if (estimate) estimate->microseconds = (float)(ns / 1e3);
    group.count = group.joining = 0;
    if (group.depth) group.depth--;
    return NCCL_OK;
}

static sim_stream *stream_on(const nccl_comm *comm, void *handle) { /* none is the default one of the rank's device */
    int was = sim_current;
    sim_current = comm->device;
    sim_stream *stream = sim_stream_of(handle);
    sim_current = was;
    return stream;
}

static nccl_result check(const char *name, const nccl_op *op) {
    nccl_comm *comm = op->comm;
    bool reduces = op->kind == NCCL_ALL_REDUCE || op->kind == NCCL_REDUCE || op->kind == NCCL_REDUCE_SCATTER;
    int made = op->reduction - NCCL_OPS;
    OR_RETURN(fault_of(name));
    if (!comm) return nccl_fail(NULL, NCCL_INVALID_ARGUMENT, "%s: the communicator is NULL", name);
    if (!nccl_type_bytes(op->type))
        return nccl_fail(comm, NCCL_INVALID_ARGUMENT, "%s: unknown type %d", name, op->type);
    if (op->root < 0 || op->root >= comm->ranks)
        return nccl_fail(comm, NCCL_INVALID_ARGUMENT, "%s: there is no rank %d of %d", name, op->root, comm->ranks);
    if (reduces && !nccl_can_reduce(op->type)) {
        sim_missing("a sum of 8-bit floats", NCCL_INVALID_ARGUMENT);
        return nccl_fail(comm, NCCL_INVALID_ARGUMENT, "%s: sums of 8-bit floats are not simulated", name);
    }
    if (op->reduction < 0 || (made >= 0 && (made >= NCCL_MADE_OPS || !comm->made[made].used)))
        return nccl_fail(comm, NCCL_INVALID_ARGUMENT, "%s: unknown reduction %d", name, op->reduction);
    return NCCL_OK;
}

static nccl_result queue(const char *name, nccl_op op, void *stream) {
    OR_RETURN(check(name, &op));
    op.stream = stream_on(op.comm, stream);
    if (!group.depth) return nccl_run(op.comm, &op, 1);
    if (group.count == group.room)
        group.ops = realloc(group.ops, (size_t)(group.room = 2 * group.room + 64) * sizeof *group.ops);
    group.ops[group.count++] = op;
    return NCCL_OK;
}
#define QUEUE(...) queue(__func__, (nccl_op){__VA_ARGS__, .comm = comm, .count = count, .type = type}, stream)

nccl_result ncclAllReduce(const void *send, void *receive, size_t count, nccl_type type, int reduction, nccl_comm *comm,
                          void *stream) {
    return QUEUE(.kind = NCCL_ALL_REDUCE, .send = send, .receive = receive, .reduction = reduction);
}
nccl_result ncclReduce(const void *send, void *receive, size_t count, nccl_type type, int reduction, int root,
                       nccl_comm *comm, void *stream) {
    return QUEUE(.kind = NCCL_REDUCE, .send = send, .receive = receive, .reduction = reduction, .root = root);
}
nccl_result ncclBroadcast(const void *send, void *receive, size_t count, nccl_type type, int root, nccl_comm *comm,
                          void *stream) {
    return QUEUE(.kind = NCCL_BROADCAST, .send = send, .receive = receive, .root = root);
}
nccl_result ncclBcast(void *buffer, size_t count, nccl_type type, int root, nccl_comm *comm, void *stream) {
    return QUEUE(.kind = NCCL_BROADCAST, .send = buffer, .receive = buffer, .root = root);
}
nccl_result ncclAllGather(const void *send, void *receive, size_t count, nccl_type type, nccl_comm *comm,
                          void *stream) {
    return QUEUE(.kind = NCCL_ALL_GATHER, .send = send, .receive = receive);
}
nccl_result ncclReduceScatter(const void *send, void *receive, size_t count, nccl_type type, int reduction,
                              nccl_comm *comm, void *stream) {
    return QUEUE(.kind = NCCL_REDUCE_SCATTER, .send = send, .receive = receive, .reduction = reduction);
}
nccl_result ncclAlltoAll(const void *send, void *receive, size_t count, nccl_type type, nccl_comm *comm, void *stream) {
    return QUEUE(.kind = NCCL_ALL_TO_ALL, .send = send, .receive = receive);
}
nccl_result ncclGather(const void *send, void *receive, size_t count, nccl_type type, int root, nccl_comm *comm,
                       void *stream) {
    return QUEUE(.kind = NCCL_GATHER, .send = send, .receive = receive, .root = root);
}
nccl_result ncclScatter(const void *send, void *receive, size_t count, nccl_type type, int root, nccl_comm *comm,
                        void *stream) {
    return QUEUE(.kind = NCCL_SCATTER, .send = send, .receive = receive, .root = root);
}
nccl_result ncclSend(const void *send, size_t count, nccl_type type, int peer, nccl_comm *comm, void *stream) {
    return QUEUE(.kind = NCCL_SEND, .send = send, .root = peer);
}
nccl_result ncclRecv(void *receive, size_t count, nccl_type type, int peer, nccl_comm *comm, void *stream) {
    return QUEUE(.kind = NCCL_RECEIVE, .receive = receive, .root = peer);
}

/* ---- reductions that are made: each part times a factor, then the sum ---- */

nccl_result ncclRedOpCreatePreMulSum(int *op, void *scalar, nccl_type type, int residence, nccl_comm *comm) {
    OR_RETURN(fault_of(__func__));
    for (int i = 0; i < NCCL_MADE_OPS; i++) {
        nccl_made_op *made = &comm->made[i];
        if (made->used) continue;
        bool on_device = residence == NCCL_SCALAR_ON_DEVICE;
        *made = (nccl_made_op){.type = type, .on_device = on_device, .scalar = scalar, .used = true};
        if (!made->on_device) memcpy(made->value, scalar, nccl_type_bytes(type));
        *op = NCCL_OPS + i;
        return NCCL_OK;
    }
    return nccl_fail(comm, NCCL_INTERNAL_ERROR, "more than %d reductions were made", NCCL_MADE_OPS);
}

nccl_result ncclRedOpDestroy(int op, nccl_comm *comm) {
    int made = op - NCCL_OPS;
    if (made < 0 || made >= NCCL_MADE_OPS || !comm->made[made].used)
        return nccl_fail(comm, NCCL_INVALID_ARGUMENT, "ncclRedOpDestroy: unknown reduction %d", op);
    comm->made[made].used = false; /* operations run when they are called, so none still needs it */
    return NCCL_OK;
}

/* ---- communicators ---- */

nccl_result ncclGetUniqueId(nccl_unique_id *id) {
    OR_RETURN(fault_of(__func__));
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return nccl_fail(NULL, NCCL_SYSTEM_ERROR, "getrandom: %s", strerror(errno));
    memset(id, 0, sizeof *id);
    snprintf(id->text, 64, "%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
    return NCCL_OK;
}

static nccl_result begin(nccl_comm **to, const char *name, int ranks, int rank) {
    *to = NULL;
    if (ranks < 1 || ranks > NCCL_RANKS || rank < 0 || rank >= ranks)
        return nccl_fail(NULL, NCCL_INVALID_ARGUMENT, "rank %d of %d, of 1 to %d ranks", rank, ranks, NCCL_RANKS);
    if (!sim_context()) return nccl_fail(NULL, NCCL_CUDA_ERROR, "no memory for a context on device %d", sim_current);
    nccl_comm *comm = calloc(1, sizeof *comm);
    snprintf(comm->name, sizeof comm->name, "%.40s", name);
    comm->ranks = ranks, comm->rank = rank, comm->device = sim_current;
    pthread_mutex_init(&comm->lock, NULL);
    *to = comm;
    if (group.depth) { /* whether it joins is known at the group's end */
        if (group.joining == NCCL_RANKS) return nccl_fail(NULL, NCCL_INTERNAL_ERROR, "more than %d join", NCCL_RANKS);
        group.joins[group.joining++] = comm;
        return NCCL_OK;
    }
    nccl_result result = nccl_join(comm);
    if (result) *to = NULL, free(comm);
    return result;
}

nccl_result ncclCommInitRank(nccl_comm **comm, int ranks, nccl_unique_id id, int rank) {
    OR_RETURN(fault_of(__func__));
    return begin(comm, id.text, ranks, rank);
}
nccl_result ncclCommInitRankConfig(nccl_comm **comm, int ranks, nccl_unique_id id, int rank, const void *config) {
    OR_RETURN(fault_of(__func__));
    return begin(comm, id.text, ranks, rank); /* one that asks not to block finds it ready at once */
}
nccl_result ncclCommInitRankScalable(nccl_comm **comm, int ranks, int rank, int ids, nccl_unique_id *id,
                                     const void *config) {
    OR_RETURN(fault_of(__func__));
    return ids < 1 ? NCCL_INVALID_ARGUMENT : begin(comm, id->text, ranks, rank);
}

nccl_result ncclCommInitAll(nccl_comm **comms, int count, const int *devices) {
    nccl_unique_id id;
    OR_RETURN(fault_of(__func__));
    OR_RETURN(ncclGetUniqueId(&id));
    int was = sim_current;
    nccl_result result = ncclGroupStart();
    for (int i = 0; i < count && !result; i++) {
        sim_current = devices ? devices[i] : i;
        result = begin(&comms[i], id.text, count, i);
    }
    sim_current = was;
    nccl_result end = ncclGroupEnd();
    return result ? result : end;
}

/* The ranks of one colour, in the order of their keys. */
nccl_result ncclCommSplit(nccl_comm *comm, int color, int key, nccl_comm **to, const void *config) {
    OR_RETURN(fault_of(__func__));
    *to = NULL;
    int ranks = 0, rank = 0;
    pthread_mutex_lock(&comm->lock);
    nccl_word word = {.kind = NCCL_SPLIT, .color = color, .key = key};
    nccl_result result = comm->segment ? nccl_meet(comm, &word) : NCCL_INVALID_USAGE;
    for (int i = 0; i < comm->ranks && !result; i++) {
        const nccl_word *w = nccl_word_of(comm, i);
        if (w->kind != NCCL_SPLIT) result = nccl_fail(comm, NCCL_INVALID_USAGE, "rank %d does not split", i);
        if (w->color != color) continue;
        ranks++;
        if (w->key < key || (w->key == key && i < comm->rank)) rank++;
    }
    char text[128];
    snprintf(text, sizeof text, "%s-%u-%d", comm->name, comm->splits++, color);
    pthread_mutex_unlock(&comm->lock);
    if (result || color == NCCL_NO_COLOR) return result;
    uint64_t hash = 14695981039346656037ull;
    for (const char *c = text; *c; c++) hash = (hash ^ (uint8_t)*c) * 1099511628211ull;
    snprintf(text, sizeof text, "%.16s%016llx", comm->name, (unsigned long long)hash);
    int was = sim_current;
    sim_current = comm->device;
    result = begin(to, text, ranks, rank);
    sim_current = was;
    return result;
}

/* The record stays, so that a watchdog's late question about it is answered. */
static nccl_result end(nccl_comm *comm, bool abort) {
    if (!comm) return NCCL_OK;
    if (abort) __atomic_store_n(&comm->aborted, true, __ATOMIC_RELEASE); /* who waits for it finds out in a moment */
    pthread_mutex_lock(&comm->lock);
    nccl_leave(comm);
    pthread_mutex_unlock(&comm->lock);
    return NCCL_OK;
}
nccl_result ncclCommAbort(nccl_comm *comm) { OR_RETURN(fault_of(__func__)); return end(comm, true); }
nccl_result ncclCommDestroy(nccl_comm *comm) { OR_RETURN(fault_of(__func__)); return end(comm, false); }
nccl_result ncclCommFinalize(nccl_comm *comm) { return fault_of(__func__); } /* nothing is under way between calls */

nccl_result ncclCommGetAsyncError(nccl_comm *comm, nccl_result *error) {
    OR_RETURN(fault_of(__func__));
    *error = comm->error;
    return NCCL_OK;
}
nccl_result ncclCommCount(const nccl_comm *comm, int *count) { *count = comm->ranks; return NCCL_OK; }
nccl_result ncclCommCuDevice(const nccl_comm *comm, int *device) { *device = comm->device; return NCCL_OK; }
nccl_result ncclCommUserRank(const nccl_comm *comm, int *rank) { *rank = comm->rank; return NCCL_OK; }

/* ---- the rest ---- */

nccl_result ncclGetVersion(int *version) { *version = NCCL_VERSION; return fault_of(__func__); }

const char *ncclGetErrorString(nccl_result result) {
    static const char *const words[] = {
        "no error", "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)", "remote process exited or there was a network error",
        "NCCL operation in progress"};
    return (unsigned)result < sizeof words / sizeof *words ? words[result] : "unknown result code";
}
const char *ncclGetLastError(nccl_comm *comm) { return nccl_last_error(); }

nccl_result ncclMemAlloc(void **at, size_t bytes) {
    OR_RETURN(fault_of(__func__));
    *at = sim_malloc(bytes);
    return *at ? NCCL_OK : nccl_fail(NULL, NCCL_CUDA_ERROR, "ncclMemAlloc of %zu bytes: out of memory", bytes);
}
nccl_result ncclMemFree(void *at) {
    OR_RETURN(fault_of(__func__));
    return !at || sim_free(at) ? NCCL_OK : NCCL_INVALID_ARGUMENT;
}

/* Buffers may be registered, which here makes nothing faster. */
nccl_result ncclCommRegister(const nccl_comm *comm, void *buffer, size_t bytes, void **handle) {
    *handle = buffer;
    return fault_of(__func__);
}
nccl_result ncclCommDeregister(const nccl_comm *comm, void *handle) { return fault_of(__func__); }
nccl_result ncclCommWindowRegister(nccl_comm *comm, void *buffer, size_t bytes, void **window, int flags) {
    *window = buffer;
    return fault_of(__func__);
}
nccl_result ncclCommWindowDeregister(nccl_comm *comm, void *window) { return fault_of(__func__); }
nccl_result ncclWinGetUserPtr(nccl_comm *comm, void *window, void **at) { *at = window; return fault_of(__func__); }
