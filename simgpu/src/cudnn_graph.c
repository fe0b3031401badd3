/* cuDNN's backend, by which torch asks for convolutions and attention: descriptors keep the attributes that they are
   given; what a graph costs goes from its operations to the heuristics' engines, their configurations and the plan.

   Two kinds of graph are known: one convolution, with pointwise operations after it; and attention, as one operation or
   as matrix products with pointwise operations, reductions, masks and random numbers between them. What a causal mask
   leaves out is counted. Any other graph has no engine. */
#include "cudnn_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef dnn_status S;
typedef struct { int name, type; int64_t count; void *data; } attribute;
typedef struct { double m, n, k, batches; } product;
enum { MOST_PRODUCTS = 8, MOST_ENGINES = 4, INLINE_BYTES = 16 };
typedef enum { NOTHING, CONVOLUTION, ATTENTION } graph_kind;
typedef struct {
    graph_kind kind;
    dnn_conv conv;
    product products[MOST_PRODUCTS];
    int count, type, features;            /* of attention: products, the operands' type, features of a head */
    double bytes;
} cost;
typedef struct { int type, count, room; attribute *attributes; cost cost; int engine; } descriptor;

/* ---- descriptors and their attributes ---- */

static size_t size_of(int type) {
    switch (type) {
    case BACKEND_HANDLE:
    case BACKEND_VOID_PTR:
    case BACKEND_DESCRIPTOR:
    case BACKEND_INT64:
    case BACKEND_DOUBLE:
        return 8;
    case BACKEND_BOOLEAN: case BACKEND_CHAR: return 1;
    case BACKEND_FRACTION: return 16;
    default: return 4;
    }
}

static attribute *find(const descriptor *d, int name) {
    for (int i = 0; d && i < d->count; i++)
        if (d->attributes[i].name == name) return &d->attributes[i];
    return NULL;
}
static descriptor *other(const descriptor *d, int name) {
    attribute *a = find(d, name);
    return a && a->count ? *(descriptor **)a->data : NULL;
}
static int64_t number(const descriptor *d, int name, int64_t otherwise) {
    attribute *a = find(d, name);
    if (!a || !a->count) return otherwise;
    return size_of(a->type) == 8   ? *(int64_t *)a->data
           : size_of(a->type) == 4 ? *(int32_t *)a->data
                                   : *(int8_t *)a->data;
}

S cudnnBackendCreateDescriptor(int type, descriptor **d) {
    *d = calloc(1, sizeof **d);
    (*d)->type = type;
    return DNN_OK;
}
S cudnnBackendDestroyDescriptor(descriptor *d) {
    for (int i = 0; d && i < d->count; i++) free(d->attributes[i].data);
    if (d) free(d->attributes);
    free(d);
    return DNN_OK;
}
S cudnnBackendSetAttribute(descriptor *d, int name, int type, int64_t count, const void *data) {
    if (count < 0 || (count && !data)) return DNN_BAD_PARAM;
    attribute *a = find(d, name);
    if (!a) {
        if (d->count == d->room) {
            d->room = 2 * d->room + 8;
            d->attributes = realloc(d->attributes, sizeof *d->attributes * (size_t)d->room);
        }
        a = &d->attributes[d->count++];
        a->data = NULL;
    }
    free(a->data);
    size_t bytes = (size_t)count * size_of(type);
    *a = (attribute){name, type, count, malloc(bytes + INLINE_BYTES)};
    if (bytes) memcpy(a->data, data, bytes);
    return DNN_OK;
}

/* ---- what a graph costs ---- */

static bool tensor_of(const descriptor *d, dnn_tensor *t) {
    attribute *dims = find(d, OF_TENSOR_DIMS), *strides = find(d, OF_TENSOR_STRIDES);
    if (!dims || dims->count > DNN_MOST_DIMS) return false;
    *t = (dnn_tensor){.type = (int)number(d, OF_TENSOR_TYPE, DNN_FLOAT), .n = (int)dims->count};
    for (int i = 0; i < t->n; i++) {
        t->dims[i] = (int)((int64_t *)dims->data)[i];
        if (strides && i < strides->count) t->strides[i] = (int)((int64_t *)strides->data)[i];
    }
    return true;
}

static bool add_convolution(cost *c, const descriptor *op) {
    static const struct { int type; dnn_way way; int x, w, y; } ways[] = {
        {BACKEND_FORWARD, DNN_FORWARD, OF_FORWARD_X, OF_FORWARD_W, OF_FORWARD_Y},
        {BACKEND_BACKWARD_DATA, DNN_BACKWARD_DATA, OF_BACKWARD_DATA_DX, OF_BACKWARD_DATA_W, OF_BACKWARD_DATA_DY},
        {BACKEND_BACKWARD_FILTER, DNN_BACKWARD_FILTER, OF_BACKWARD_FILTER_X, OF_BACKWARD_FILTER_DW,
         OF_BACKWARD_FILTER_DY}};
    for (int i = 0; i < 3; i++) {
        if (op->type != ways[i].type) continue;
        c->kind = CONVOLUTION, c->conv.way = ways[i].way;
        return tensor_of(other(op, ways[i].x), &c->conv.x) && tensor_of(other(op, ways[i].w), &c->conv.w) &&
               tensor_of(other(op, ways[i].y), &c->conv.y) && c->conv.x.n > 2;
    }
    return false;
}

static bool add_product(cost *c, const descriptor *op) {
    dnn_tensor a, to;
    if (c->count == MOST_PRODUCTS || !tensor_of(other(op, OF_MATMUL_A), &a) || !tensor_of(other(op, OF_MATMUL_C), &to))
        return false;
    if (a.n < 2 || to.n < 2) return false;
    product p = {to.dims[to.n - 2], to.dims[to.n - 1], a.dims[a.n - 1], 1};
    for (int i = 0; i < to.n - 2; i++) p.batches *= to.dims[i];
    if (c->count == 0) c->features = a.dims[a.n - 1];
    if (c->kind == NOTHING) c->kind = ATTENTION, c->type = a.type;
    c->products[c->count++] = p;
    return true;
}

static bool add_attention(cost *c, const descriptor *op) {
    bool forward = op->type == BACKEND_ATTENTION_FORWARD;
    dnn_tensor q, k, v;
    if (!tensor_of(other(op, forward ? OF_ATTENTION_FORWARD_Q : OF_ATTENTION_BACKWARD_Q), &q)) return false;
    if (!tensor_of(other(op, forward ? OF_ATTENTION_FORWARD_K : OF_ATTENTION_BACKWARD_K), &k)) return false;
    if (!tensor_of(other(op, forward ? OF_ATTENTION_FORWARD_V : OF_ATTENTION_BACKWARD_V), &v)) return false;
    if (q.n != 4 || k.n != 4 || v.n != 4) return false;
    double heads = (double)q.dims[0] * q.dims[1], queries = q.dims[2], keys = k.dims[2];
    double from = q.dims[3], to = v.dims[3];
    const product scores = {queries, keys, from, heads}, output = {queries, to, keys, heads};
    const product backward[] = {scores, {keys, to, queries, heads}, {queries, keys, to, heads},
                                {queries, from, keys, heads}, {keys, from, queries, heads}};
    c->kind = ATTENTION, c->type = q.type, c->features = q.dims[3], c->count = forward ? 2 : 5;
    if (forward) c->products[0] = scores, c->products[1] = output;
    else memcpy(c->products, backward, sizeof backward);
    return true;
}

/* Memory that an operation reads or writes: the tensors that are not virtual, each once. */
static double real_bytes(const descriptor *graph) {
    enum { MOST = 256 };
    int64_t seen[MOST];
    int count = 0;
    double bytes = 0;
    attribute *ops = find(graph, OF_GRAPH_OPERATIONS);
    for (int64_t i = 0; ops && i < ops->count; i++) {
        const descriptor *op = ((descriptor **)ops->data)[i];
        for (int j = 0; j < op->count; j++) {
            dnn_tensor t;
            if (op->attributes[j].type != BACKEND_DESCRIPTOR || !op->attributes[j].count) continue;
            const descriptor *d = *(descriptor **)op->attributes[j].data;
            if (!d || d->type != BACKEND_TENSOR || number(d, OF_TENSOR_IS_VIRTUAL, 0) || !tensor_of(d, &t)) continue;
            int64_t id = number(d, OF_TENSOR_ID, 0);
            bool known = false;
            for (int k = 0; k < count; k++) known |= seen[k] == id;
            if (known || count == MOST) continue;
            seen[count++] = id, bytes += dnn_bytes(&t);
        }
    }
    return bytes;
}

static cost cost_of(const descriptor *graph) {
    cost c = {.kind = NOTHING};
    attribute *ops = find(graph, OF_GRAPH_OPERATIONS);
    for (int64_t i = 0; ops && i < ops->count; i++) {
        const descriptor *op = ((descriptor **)ops->data)[i];
        bool known = true;
        switch (op->type) {
        case BACKEND_FORWARD: case BACKEND_BACKWARD_DATA: case BACKEND_BACKWARD_FILTER:
            known = add_convolution(&c, op);
            break;
        case BACKEND_MATMUL:
            known = add_product(&c, op);
            break;
        case BACKEND_ATTENTION_FORWARD: case BACKEND_ATTENTION_BACKWARD:
            known = add_attention(&c, op);
            break;
        case BACKEND_POINTWISE: case BACKEND_REDUCTION: case BACKEND_RNG: case BACKEND_RESHAPE:
        case BACKEND_BAND_MASK:
            break;
        default: known = false;
        }
        if (!known) {
            sim_missing(sim_name("a cuDNN graph with an operation of type %d", op->type), DNN_NOT_SUPPORTED);
            return (cost){.kind = NOTHING};
        }
    }
    if (c.kind == NOTHING) sim_missing("a cuDNN graph without convolution or product", DNN_NOT_SUPPORTED);
    c.bytes = real_bytes(graph);
    return c;
}

/* ---- engines: on tensor cores or not, plain or Winograd's; the numbers are ours ---- */

static dnn_engine engine_of(int index) { return (dnn_engine){.tensor_cores = index < 2, .winograd = index % 2}; }

static bool has_tensor_cores(int type) { /* for this type */
    const sim_device *d = sim_here();
    return dnn_has_tensor_cores(d) && type != DNN_DOUBLE && d->flops_per_s[dnn_rate(type)] > 0;
}

/* Whether an engine can compute this: TF32 and narrower types on tensor cores, fp32 and fp64 without. */
static bool has_engine(const cost *c, int index) {
    if (index < 0 || index >= MOST_ENGINES) return false;
    dnn_engine engine = engine_of(index);
    if (c->kind == ATTENTION) return index == 0 && has_tensor_cores(c->type);
    if (c->kind != CONVOLUTION) return false;
    if (engine.winograd && !dnn_conv_has_winograd(sim_here(), &c->conv, engine.tensor_cores)) return false;
    int type = c->conv.x.type;
    return engine.tensor_cores ? has_tensor_cores(type)
                               : type == DNN_FLOAT || type == DNN_DOUBLE || !has_tensor_cores(type);
}
static int engines(const cost *c, int found[MOST_ENGINES]) { /* best first, as the heuristics guess it */
    int count = 0;
    for (int i = 0; i < MOST_ENGINES; i++)
        if (has_engine(c, i)) found[count++] = i;
    return count;
}

static int notes(const descriptor *d, int32_t to[2]) {
    int count = 0;
    if (engine_of(d->engine).tensor_cores) to[count++] = NOTE_TENSOR_CORE;
    if (engine_of(d->engine).winograd) to[count++] = NOTE_WINOGRAD;
    return count;
}

static int64_t workspace_bytes(const descriptor *d) {
    return d->cost.kind == CONVOLUTION ? dnn_conv_workspace_bytes(&d->cost.conv, engine_of(d->engine)) : 0;
}

S cudnnBackendFinalize(descriptor *d) {
    const descriptor *from = NULL;
    switch (d->type) {
    case BACKEND_GRAPH: d->cost = cost_of(d); return DNN_OK;
    case BACKEND_HEURISTICS: from = other(d, OF_HEURISTICS_GRAPH); break;
    case BACKEND_ENGINE: from = other(d, OF_ENGINE_GRAPH); break;
    case BACKEND_ENGINE_CONFIG: from = other(d, OF_CONFIG_ENGINE); break;
    case BACKEND_PLAN: from = other(d, OF_PLAN_CONFIG); break;
    default: return DNN_OK;
    }
    if (!from) return DNN_BAD_PARAM;
    d->cost = from->cost;
    d->engine = d->type == BACKEND_ENGINE ? (int)number(d, OF_ENGINE_INDEX, 0) : from->engine;
    if (d->type == BACKEND_HEURISTICS) return DNN_OK;
    return has_engine(&d->cost, d->engine) ? DNN_OK : DNN_NOT_SUPPORTED;
}

/* ---- what is asked of descriptors ---- */

static S fill(descriptor **to, int64_t wanted, const descriptor *from, const int *indices, int count) {
    for (int i = 0; to && i < count && i < wanted; i++) to[i]->cost = from->cost, to[i]->engine = indices[i];
    return DNN_OK;
}
static S answer(const void *data, int64_t have, size_t bytes, int64_t wanted, int64_t *count, void *to) {
    *count = have;
    if (to) memcpy(to, data, (size_t)(have < wanted ? have : wanted) * bytes);
    return DNN_OK;
}

S cudnnBackendGetAttribute(descriptor *d, int name, int type, int64_t wanted, int64_t *count, void *to) {
    int64_t unused, n = 0;
    int found[MOST_ENGINES];
    int32_t noted[2], none = 0;
    if (!count) count = &unused;
    switch (name) {
    case OF_HEURISTICS_RESULTS:
        n = engines(&d->cost, found);
        *count = to && n > wanted ? wanted : n;
        return fill(to, wanted, d, found, (int)n);
    case OF_CONFIG_ENGINE: *count = 1; return fill(to, wanted, d, &d->engine, 1);
    case OF_ENGINE_NUMERICAL_NOTES: n = notes(d, noted); return answer(noted, n, sizeof *noted, wanted, count, to);
    case OF_ENGINE_INDEX: n = d->engine; return answer(&n, 1, sizeof n, wanted, count, to);
    case OF_CONFIG_WORKSPACE:
    case OF_PLAN_WORKSPACE:
        n = workspace_bytes(d);
        return answer(&n, 1, sizeof n, wanted, count, to);
    case OF_CONFIG_SHARED_MEMORY: return answer(&none, 1, sizeof none, wanted, count, to);
    case OF_GRAPH_ENGINE_COUNT: n = MOST_ENGINES; return answer(&n, 1, sizeof n, wanted, count, to);
    case OF_PLAN_JSON: return (S)sim_missing("a cuDNN plan as JSON", DNN_NOT_SUPPORTED);
    }
    attribute *a = find(d, name);
    if (a) return answer(a->data, a->count, size_of(a->type), wanted, count, to);
    *count = 0; /* no knobs, no notes on behaviour, no wishes for a layout */
    return DNN_OK;
}

/* ---- a plan at work ---- */

static void attend(sim_stream *stream, const cost *c) {
    sim_device *d = sim_device_of(stream->device);
    sim_rate held = dnn_held_rate(d, c->type, true);
    double flops = 0;
    for (int i = 0; i < c->count; i++) {
        const product *p = &c->products[i];
        flops += product_flops(d->multiprocessors, p->m, p->n, p->k, p->batches);
    }
    const product *scores = &c->products[0]; /* queries by keys; two products forward, five backward */
    sim_kernel(stream, flops, held, c->bytes,
               sim_name("attention %s %s heads %.0f %.0fx%.0fx%d", c->count > 2 ? "dgrad" : "fprop",
                        product_type(dnn_rate(c->type), held), scores->batches, scores->m, scores->n, c->features));
}

S cudnnBackendExecute(dnn_handle *h, descriptor *plan, descriptor *pack) {
    int code;
    if (sim_fails("cudnnBackendExecute", &code)) return (S)code;
    S status = dnn_stream_status(h->stream);
    if (status) return status;
    if (plan->cost.kind == CONVOLUTION) dnn_conv_run(h->stream, &plan->cost.conv, engine_of(plan->engine));
    else if (plan->cost.kind == ATTENTION) attend(h->stream, &plan->cost);
    else return DNN_NOT_SUPPORTED;
    return DNN_OK;
}
