/* What NCCL's operations do: when they begin, how long they take, and the data they move.

   A collective begins when the last rank's stream reaches it. It runs on the engine of copies to the host: beside
   computing, and not beside such copies. The data passes through the shared segment chunk by chunk; each rank works out
   itself what it receives, in the ranks' order, so that all get the same. */
#define _GNU_SOURCE
#include "nccl_parts.h"
#include "properties.h"
#include <string.h>

/* ---- how long it takes ---- */

/* What is reached of NVLink; what begins a kernel and what each step along the ring costs, about as in NCCL's own
   tables for its low-latency protocol. */
static const double nvlink_share = 0.8;
static const double base_ns = 6000, pcie_step_ns = 1500, nvlink_step_ns = 700;

static double link_bytes_per_s(const nccl_comm *comm, bool *nvlink) { /* the slowest rank's; NVLink if all have it */
    double pcie = 1e18, links = 1e18;
    *nvlink = true;
    for (int i = 0; i < comm->ranks; i++) {
        const sim_device *d = &sim_devices[comm->segment->rank[i].device];
        double own = nvlink_share * sim_link_bytes_per_s(d);
        if (!d->nvlinks) *nvlink = false;
        if (own < links) links = own;
        if (d->pinned_bytes_per_s < pcie) pcie = d->pinned_bytes_per_s;
    }
    return *nvlink ? links : pcie;
}

static uint64_t bytes_of(const nccl_op *op) { return (uint64_t)op->count * nccl_type_bytes(op->type); }

/* Bytes that pass each link of a ring of n ranks: a sum goes around twice, a gathering once, less a part in n. */
static double bytes_on_link(const nccl_op *op) {
    double n = op->comm->ranks, bytes = (double)bytes_of(op);
    switch (op->kind) {
    case NCCL_ALL_REDUCE: return 2 * (n - 1) / n * bytes;
    case NCCL_ALL_GATHER: case NCCL_REDUCE_SCATTER: case NCCL_ALL_TO_ALL: case NCCL_GATHER: case NCCL_SCATTER:
        return (n - 1) * bytes; /* count is of one rank's part */
    default: return n > 1 ? bytes : 0;
    }
}

static double duration_ns(const nccl_comm *comm, nccl_kind kind, double bytes, bool first_in_group) {
    bool nvlink;
    double rate = link_bytes_per_s(comm, &nvlink), step_ns = nvlink ? nvlink_step_ns : pcie_step_ns;
    int steps = kind == NCCL_ALL_REDUCE ? 2 * (comm->ranks - 1) : kind >= NCCL_SEND ? 1 : comm->ranks - 1;
    return (first_in_group ? base_ns + steps * step_ns : 0) + bytes / rate * 1e9;
}

double nccl_estimated_ns(const nccl_op *op) { return duration_ns(op->comm, op->kind, bytes_on_link(op), true); }

static const char *kernel_name(const nccl_op *op) { /* as NCCL names its own */
    static const char *const kinds[] = {"AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter"};
    static const char *const reductions[] = {"Sum", "Prod", "MinMax", "MinMax", "Sum"};
    static const char *const types[NCCL_TYPES] = {"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16",
                                                  "f8e4m3", "f8e5m2"};
    bool reduces = op->kind == NCCL_ALL_REDUCE || op->kind == NCCL_REDUCE || op->kind == NCCL_REDUCE_SCATTER;
    if (op->kind >= NCCL_ALL_TO_ALL) return "ncclDevKernel_SendRecv";
    if (!reduces) return sim_name("ncclDevKernel_%s_RING_LL", kinds[op->kind]);
    const char *how = op->reduction < NCCL_OPS ? reductions[op->reduction] : "PreMulSum";
    return sim_name("ncclDevKernel_%s_%s_%s_RING_LL", kinds[op->kind], how, types[op->type]);
}

static void take_time(sim_stream *stream, int64_t begin, double ns, const char *name, double bytes) {
    if (begin > stream->tail) stream->tail = begin;
    sim_work(stream, SIM_D2H, ns, name, (size_t)bytes);
}

static bool is_captured(const nccl_op *op) {
    static bool said;
    if (!op->stream->capture) return false;
    if (!said) sim_say("nccl: a captured operation takes its time at each replay, but moves no data");
    said = true;
    return true;
}

static bool is_too_long(const nccl_op *op, double bytes) { /* as a long copy within the device */
    if (bytes <= (double)sim_copy_limit_bytes) return false;
    sim_note("%s of %.0f bytes moves no data: SIMGPU_COPY_LIMIT is %lld", kernel_name(op), bytes,
             (long long)sim_copy_limit_bytes);
    return true;
}

static int64_t reached(const sim_stream *stream) { /* when what follows on the stream may begin */
    int64_t now = sim_now(), tail = sim_tail(stream);
    return tail > now ? tail : now;
}

/* ---- data: most of it is zero, and memory that was never written is to stay so ---- */

static const uint8_t zeros[HALF_BYTES];

static bool is_zero(const void *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += HALF_BYTES)
        if (memcmp((const uint8_t *)at + i, zeros, bytes - i < HALF_BYTES ? bytes - i : HALF_BYTES)) return false;
    return true;
}

/* ---- collectives ---- */

/* How an operation's data is laid out in a rank's half: the same part for all, or one for each that receives. */
typedef struct { const nccl_op *op; uint64_t part; bool each, gives, takes, reduces; } plan;

static plan plan_of(const nccl_op *op) {
    bool root = op->root == op->comm->rank;
    plan p = {.op = op, .gives = true, .takes = true};
    switch (op->kind) {
    case NCCL_REDUCE: p.takes = root, p.reduces = true; break;
    case NCCL_BROADCAST: p.gives = root; break;
    case NCCL_GATHER: p.takes = root; break;
    case NCCL_SCATTER: p.gives = root, p.each = true; break;
    case NCCL_REDUCE_SCATTER: p.each = p.reduces = true; break;
    case NCCL_ALL_TO_ALL: p.each = true; break;
    case NCCL_ALL_REDUCE: p.reduces = true; break;
    default: break;
    }
    p.part = p.each ? HALF_BYTES / (uint64_t)op->comm->ranks / 64 * 64 : HALF_BYTES;
    return p;
}

static bool put(const plan *p, uint64_t at, uint64_t bytes, uint64_t meeting) { /* returns whether all of it is zero */
    nccl_comm *comm = p->op->comm;
    uint8_t *box = nccl_half(comm, comm->rank, meeting);
    const uint8_t *from = p->op->send;
    bool zero = true;
    if (!p->gives) return true;
    for (int i = 0; i < (p->each ? comm->ranks : 1); i++) {
        const uint8_t *part = from + (uint64_t)i * bytes_of(p->op) + at;
        if (zero && is_zero(part, bytes)) continue; /* written below should a later part not be zero */
        if (zero) memset(box, 0, (size_t)i * p->part);
        zero = false;
        memcpy(box + (uint64_t)i * p->part, part, bytes);
    }
    return zero;
}

static const void *factor_of(const nccl_op *op) {
    if (op->reduction < NCCL_OPS) return NULL;
    const nccl_made_op *made = &op->comm->made[op->reduction - NCCL_OPS];
    return made->on_device ? made->scalar : made->value;
}

static void take(const plan *p, uint64_t at, uint64_t bytes) {
    const nccl_op *op = p->op;
    nccl_comm *comm = op->comm;
    uint64_t meeting = comm->segment->rank[comm->rank].meetings, place = p->each ? (uint64_t)comm->rank * p->part : 0;
    const void *parts[NCCL_RANKS];
    uint8_t *to = (uint8_t *)op->receive + at;
    static __thread uint8_t sum[HALF_BYTES];
    if (!p->takes) return;
    for (int i = 0; i < comm->ranks; i++)
        parts[i] = nccl_word_of(comm, i)->is_zero ? zeros : nccl_half(comm, i, meeting) + place;
    if (p->reduces) {
        size_t elements = bytes / nccl_type_bytes(op->type);
        nccl_combine(sum, parts, comm->ranks, elements, op->type, (nccl_reduction)op->reduction, factor_of(op));
        sim_store(to, sum, bytes);
    } else if (op->kind == NCCL_BROADCAST || op->kind == NCCL_SCATTER)
        sim_store(to, parts[op->root], bytes);
    else
        for (int i = 0; i < comm->ranks; i++) sim_store(to + (uint64_t)i * bytes_of(op), parts[i], bytes);
}

static nccl_result compare_words(nccl_comm *comm, int64_t *begin) {
    const nccl_word *own = nccl_word_of(comm, comm->rank);
    for (int i = 0; i < comm->ranks; i++) {
        const nccl_word *w = nccl_word_of(comm, i);
        if (w->ready > *begin) *begin = w->ready;
        if (w->kind != own->kind || w->bytes != own->bytes || w->type != own->type || w->root != own->root ||
            w->reduction != own->reduction)
            return nccl_fail(comm, NCCL_INVALID_USAGE,
                             "ranks %d and %d call unlike operations: kinds %d and %d, %llu and %llu bytes, types %d "
                             "and %d, reductions %d and %d, roots %d and %d", comm->rank, i, own->kind, w->kind,
                             (unsigned long long)own->bytes, (unsigned long long)w->bytes, own->type, w->type,
                             own->reduction, w->reduction, own->root, w->root);
    }
    return NCCL_OK;
}

static nccl_result collective(const nccl_op *op, bool first_in_group) {
    nccl_comm *comm = op->comm;
    double on_link = bytes_on_link(op), ns = duration_ns(comm, op->kind, on_link, first_in_group);
    if (!op->count) return NCCL_OK;
    if (is_captured(op)) {
        sim_work(op->stream, SIM_D2H, ns, kernel_name(op), (size_t)on_link);
        return NCCL_OK;
    }
    plan p = plan_of(op);
    uint64_t total = is_too_long(op, (double)bytes_of(op)) ? 0 : bytes_of(op), at = 0;
    nccl_word word = {.kind = op->kind, .type = op->type, .reduction = op->reduction, .root = op->root,
                      .bytes = bytes_of(op), .ready = reached(op->stream)};
    do {
        uint64_t bytes = total - at < p.part ? total - at : p.part;
        word.is_zero = put(&p, at, bytes, comm->segment->rank[comm->rank].meetings + 1);
        nccl_result result = nccl_meet(comm, &word);
        int64_t begin = 0;
        if (!result && !at) result = compare_words(comm, &begin);
        if (result) return result;
        if (!at) take_time(op->stream, begin, ns, kernel_name(op), on_link);
        if (bytes) take(&p, at, bytes);
        at += bytes;
    } while (at < total);
    return NCCL_OK;
}

/* ---- messages ---- */

/* The messages of a group from one rank to another pass as one stream of bytes: nothing waits for an order of calls. */
static nccl_op *next_message(nccl_op ops[], int count, nccl_kind kind, int peer) {
    for (int i = 0; i < count; i++)
        if (ops[i].kind == kind && ops[i].root == peer && ops[i].done < bytes_of(&ops[i])) return &ops[i];
    return NULL;
}

static uint64_t message_bytes(const nccl_op ops[], int count, nccl_kind kind, int peer) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        if (ops[i].kind == kind && ops[i].root == peer) sum += bytes_of(&ops[i]);
    return sum;
}

/* What a rank has to do with one channel in a group. Its two sides announce a stream by counting it, and each has to
   see the other's announcement before either may announce the next. */
typedef struct { nccl_side *own, *other; uint64_t bytes; } stream_end;
enum { SENDS, RECEIVES, ENDS };

static stream_end end_of(nccl_comm *comm, nccl_op ops[], int count, int peer, int end) {
    nccl_channel *c = end == SENDS ? nccl_channel_of(comm, comm->rank, peer) : nccl_channel_of(comm, peer, comm->rank);
    uint64_t bytes = message_bytes(ops, count, end == SENDS ? NCCL_SEND : NCCL_RECEIVE, peer);
    return (stream_end){&c->side[end], &c->side[!end], bytes};
}

static void announce(nccl_comm *comm, nccl_op ops[], int count, int64_t ready) {
    for (int i = 0; i < comm->ranks * ENDS; i++) {
        stream_end e = end_of(comm, ops, count, i / ENDS, i % ENDS);
        if (!e.bytes) continue;
        e.own->bytes = e.bytes, e.own->ready = ready;
        __atomic_add_fetch(&e.own->announced, 1, __ATOMIC_RELEASE);
    }
    nccl_ring(comm);
}

static bool see(const stream_end *e, int64_t *begin) { /* whether the other side's announcement is new */
    uint32_t turn = e->own->announced;
    if (e->own->seen == turn || __atomic_load_n(&e->other->announced, __ATOMIC_ACQUIRE) != turn) return false;
    if (e->other->ready > *begin) *begin = e->other->ready;
    return true;
}

static nccl_result agree(nccl_comm *comm, nccl_op ops[], int count, int64_t *begin) {
    for (int64_t since = sim_now();;) {
        uint32_t bell = nccl_bell(comm);
        uint64_t awaited = 0;
        bool saw = false;
        for (int i = 0; i < comm->ranks * ENDS; i++) {
            int peer = i / ENDS;
            stream_end e = end_of(comm, ops, count, peer, i % ENDS);
            if (!e.bytes) continue;
            if (see(&e, begin)) {
                if (e.other->bytes != e.bytes)
                    return nccl_fail(comm, NCCL_INVALID_USAGE,
                                     "rank %d has %llu bytes for or from rank %d, which has %llu", comm->rank,
                                     (unsigned long long)e.bytes, peer, (unsigned long long)e.other->bytes);
                saw = true;
                __atomic_store_n(&e.own->seen, e.own->announced, __ATOMIC_RELEASE);
            }
            bool seen = __atomic_load_n(&e.other->seen, __ATOMIC_ACQUIRE) == e.own->announced;
            if (!seen || e.own->seen != e.own->announced) awaited |= 1ull << peer;
        }
        if (saw) nccl_ring(comm);
        if (!awaited) return NCCL_OK;
        nccl_result result = saw ? NCCL_OK : nccl_doze(comm, bell, awaited, since);
        if (result) return result;
    }
}

static uint64_t pass(nccl_channel *channel, nccl_op *op, bool out) { /* what fits now; returns how much that was */
    uint64_t written = __atomic_load_n(&channel->written, __ATOMIC_ACQUIRE);
    uint64_t read = __atomic_load_n(&channel->read, __ATOMIC_ACQUIRE);
    uint64_t full = written - read, most = out ? CHANNEL_BYTES - full : full;
    uint64_t at = (out ? written : read) % CHANNEL_BYTES, bytes = bytes_of(op) - op->done;
    if (bytes > most) bytes = most;
    if (bytes > CHANNEL_BYTES - at) bytes = CHANNEL_BYTES - at;
    if (!bytes) return 0;
    if (out) memcpy(channel->data + at, (const uint8_t *)op->send + op->done, bytes);
    else sim_store((uint8_t *)op->receive + op->done, channel->data + at, bytes);
    __atomic_add_fetch(out ? &channel->written : &channel->read, bytes, __ATOMIC_RELEASE);
    op->done += bytes;
    return bytes;
}

static nccl_result exchange(nccl_comm *comm, nccl_op ops[], int count) {
    for (int64_t since = sim_now();;) {
        uint32_t bell = nccl_bell(comm);
        uint64_t awaited = 0, passed = 0;
        for (int peer = 0; peer < comm->ranks; peer++) {
            nccl_op *out = next_message(ops, count, NCCL_SEND, peer);
            nccl_op *in = next_message(ops, count, NCCL_RECEIVE, peer);
            if (out) passed += pass(nccl_channel_of(comm, comm->rank, peer), out, true);
            if (in) passed += pass(nccl_channel_of(comm, peer, comm->rank), in, false);
            if (out || in) awaited |= 1ull << peer;
        }
        if (!awaited) return NCCL_OK;
        if (passed) nccl_ring(comm);
        if (passed) since = sim_now();
        nccl_result result = passed ? NCCL_OK : nccl_doze(comm, bell, awaited, since);
        if (result) return result;
    }
}

static nccl_result messages(nccl_comm *comm, nccl_op ops[], int count, bool first_in_group) {
    uint64_t out = 0, in = 0;
    int64_t ready = 0, begin = 0;
    sim_stream *stream = NULL;
    for (int i = 0; i < count; i++) {
        if (ops[i].kind < NCCL_SEND) continue;
        *(ops[i].kind == NCCL_SEND ? &out : &in) += ops[i].root == comm->rank ? 0 : bytes_of(&ops[i]);
        stream = ops[i].stream;
        if (reached(stream) > ready) ready = reached(stream);
    }
    if (!stream) return NCCL_OK;
    double ns = duration_ns(comm, NCCL_SEND, (double)(out > in ? out : in), first_in_group);
    nccl_op of = {.comm = comm, .kind = NCCL_SEND, .stream = stream};
    if (is_captured(&of)) {
        sim_work(stream, SIM_D2H, ns, kernel_name(&of), out);
        return NCCL_OK;
    }
    announce(comm, ops, count, ready);
    begin = ready;
    nccl_result result = agree(comm, ops, count, &begin);
    if (result) return result;
    take_time(stream, begin, ns, kernel_name(&of), (double)out);
    for (int i = 0; i < count; i++) /* both sides leave out what is too long */
        if (ops[i].kind >= NCCL_SEND && is_too_long(&ops[i], (double)bytes_of(&ops[i])))
            ops[i].done = bytes_of(&ops[i]);
    return exchange(comm, ops, count);
}

nccl_result nccl_run(nccl_comm *comm, nccl_op ops[], int count) {
    nccl_result result = NCCL_OK;
    pthread_mutex_lock(&comm->lock);
    bool first = true;
    if (!comm->segment || comm->aborted)
        result = nccl_fail(NULL, NCCL_INVALID_USAGE, "the communicator was destroyed or aborted");
    else if (sim_lost(comm->segment->rank[comm->rank].device))
        result = nccl_fail(comm, NCCL_CUDA_ERROR, "the GPU is lost");
    for (int i = 0; i < count && !result; i++)
        if (ops[i].kind < NCCL_SEND) result = collective(&ops[i], first), first = false;
    if (!result) result = messages(comm, ops, count, first);
    pthread_mutex_unlock(&comm->lock);
    return result;
}
