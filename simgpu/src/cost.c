/* What a kernel costs: the bytes that it moves and the operations that it does, from its mangled name, its grid and its
   arguments. The table `rules` says for each family of kernels how its elements are counted; an element's size comes
   from the types in the name. What no rule knows moves THREAD_ELEMENTS of its first type in each thread.

   Deterministic, and it grows with the work; caches are not modelled: each operand is read or written once. */
#include "cost.h"
#include "abi/cuda.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREAD_ELEMENTS = 8, OPERANDS = 6 };

typedef struct kernel kernel;
typedef sim_cost law(const kernel *, const sim_launch *);
typedef struct {
    const char *part; /* of the mangled name; the first rule that fits holds */
    law *cost;
    int a, b;         /* which arguments count elements */
    double passes;    /* how often an element is read or written */
} rule;
struct kernel { /* what a name tells, read once */
    const char *name;
    const rule *by;
    double element_bytes;            /* of the first scalar type */
    int operands;                    /* of a pointwise kernel: its output and inputs */
    double operand_bytes[OPERANDS];
    bool is_half, is_causal;
};

double sim_threads(const sim_launch *l) {
    return (double)l->grid[0] * l->grid[1] * l->grid[2] * l->block[0] * l->block[1] * l->block[2];
}

/* ---- types in mangled names ---- */

/* The size of the type that begins here, and past it; 0: none does. `first` is what a substitution stands for. */
static double read_type(const char **at, double first) {
    static const struct { const char *text; double bytes; } types[] = {
        {"N3c108BFloat16E", 2}, {"N3c104HalfE", 2}, {"N3c107complexIfEE", 8}, {"N3c107complexIdEE", 16},
        {"N3c107complexINS_4HalfEEE", 4}, {"N7cutlass6half_tE", 2}, {"N7cutlass10bfloat16_tE", 2},
    };
    const char *s = *at;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strncmp(s, types[i].text, strlen(types[i].text))) return *at += strlen(types[i].text), types[i].bytes;
    if (!strncmp(s, "N3c10", 5) && strstr(s, "Float8") && strstr(s, "Float8") < s + 9) {
        const char *end = strchr(s, 'E');
        return *at = end ? end + 1 : s + 1, 1;
    }
    if (*s == 'S' && (isdigit((unsigned char)s[1]) || isupper((unsigned char)s[1]) || s[1] == '_')) {
        const char *end = strchr(s, '_');
        return end ? (*at = end + 1, first) : 0;
    }
    double bytes = strchr("bahc", *s) ? 1 : strchr("st", *s) ? 2 : strchr("fij", *s) ? 4 : strchr("dlmxy", *s) ? 8 : 0;
    if (*s && bytes) ++*at;
    return *s ? bytes : 0;
}

/* The first scalar type among template arguments or a lambda's, past identifiers, literals and substitutions. */
static double first_type(const char *s) {
    while (*s) {
        const char *at = s + 1;
        if (isdigit((unsigned char)*s)) {
            unsigned long length = strtoul(s, (char **)&at, 10);
            if (!strncmp(at, "OpaqueTypeILj", 13)) return atof(at + 13);
            s = strnlen(at, length) == length ? at + length : at;
            continue;
        }
        if (*s == 'L' && islower((unsigned char)s[1])) {
            s = strchr(s, 'E');
            if (!s) return 0;
        } else if (*s == 'I' || (*s == 'U' && s[1] == 'l' && (at = s + 2))) {
            const char *type = at;
            double bytes = *type == 'S' ? 0 : read_type(&type, 0);
            if (bytes) return bytes;
        }
        s++;
    }
    return 0;
}

static int types_of(const char *s, double first, double *bytes, int most) {
    int count = 0;
    for (; count < most; count++) {
        bytes[count] = read_type(&s, first);
        if (!bytes[count]) break;
        if (!count && !first) first = bytes[0];
    }
    return count;
}

/* Of a pointwise kernel its output's and inputs' sizes: from the functor's types, or from its lambda's arguments. */
static void read_operands(kernel *k) {
    static const struct { const char *functor; int types[3]; } functors[] = { /* which of its types: output, inputs */
        {"13BinaryFunctorI", {2, 0, 1}}, {"13AUnaryFunctorI", {2, 1, -1}}, {"13BUnaryFunctorI", {2, 0, -1}},
    };
    const char *array = strstr(k->name, "5arrayIPcLm"), *at;
    double types[4];
    k->operands = array ? atoi(array + 11) : 0;
    if (k->operands > OPERANDS) k->operands = OPERANDS;
    for (int i = 0; i < OPERANDS; i++) k->operand_bytes[i] = k->element_bytes;
    for (int f = 0; f < 3; f++)
        if ((at = strstr(k->name, functors[f].functor)) &&
            types_of(at + strlen(functors[f].functor), 0, types, 3) == 3) {
            k->operands = functors[f].types[2] < 0 ? 2 : 3;
            for (int i = 0; i < k->operands; i++) k->operand_bytes[i] = types[functors[f].types[i]];
            return;
        }
    if ((at = strstr(k->name, "27converting_copy_kernel_cudaI")) && types_of(at + 30, 0, types, 2) == 2)
        k->operand_bytes[0] = types[1], k->operand_bytes[1] = types[0];
    else if (strstr(k->name, "float16_copy_kernel_cuda") || strstr(k->name, "bfloat16_copy_kernel_cuda"))
        k->operand_bytes[0] = 2;
    else if ((at = strstr(k->name, "EUl")) && at[3] != 'v') {
        int inputs = types_of(at + 3, k->element_bytes, &k->operand_bytes[1], OPERANDS - 1);
        for (int i = 1; i <= inputs; i++) /* where(mask, a, b) and scale(a, mask) give the wider type */
            if (k->operand_bytes[0] < k->operand_bytes[i]) k->operand_bytes[0] = k->operand_bytes[i];
        if (strstr(k->name, "compare_scalar_kernel")) k->operand_bytes[0] = 1;
        if (!k->operands) k->operands = inputs + 1;
    }
    if (!k->operands)
        k->operands = strstr(k->name, "15CUDAFunctor_addI") ? 3 : strstr(k->name, "11FillFunctorI") ? 1 : 2;
}

/* ---- arguments ---- */

static double int32_at(const sim_launch *l, int i) { return *(const int32_t *)l->args[i]; }
static double int64_at(const sim_launch *l, int i) { return (double)*(const int64_t *)l->args[i]; }
static sim_cost moves(double bytes) { return (sim_cost){.bytes = bytes > 0 ? bytes : 0, .rate = SIM_FP32}; }
static sim_cost elements(const kernel *k, double count) { return moves(count * k->by->passes * k->element_bytes); }

static sim_cost by_threads(const kernel *k, const sim_launch *l) {
    return moves(sim_threads(l) * THREAD_ELEMENTS * k->element_bytes);
}
static sim_cost by_int32(const kernel *k, const sim_launch *l) { return elements(k, int32_at(l, k->by->a)); }
static sim_cost by_int64(const kernel *k, const sim_launch *l) { return elements(k, int64_at(l, k->by->a)); }
static sim_cost by_product32(const kernel *k, const sim_launch *l) {
    return elements(k, int32_at(l, k->by->a) * int32_at(l, k->by->b));
}
static sim_cost by_product64(const kernel *k, const sim_launch *l) {
    return elements(k, int64_at(l, k->by->a) * int64_at(l, k->by->b));
}
static sim_cost by_rows32(const kernel *k, const sim_launch *l) {
    return elements(k, l->grid[0] * int32_at(l, k->by->a));
}
static sim_cost by_rows64(const kernel *k, const sim_launch *l) {
    return elements(k, l->grid[0] * int64_at(l, k->by->a));
}
static sim_cost by_accessor(const kernel *k, const sim_launch *l) { /* a pointer and three sizes */
    const int32_t *sizes = (const int32_t *)((char *)l->args[k->by->a] + 8);
    return elements(k, (double)sizes[0] * sizes[1] * sizes[2]);
}
static sim_cost by_mask(const kernel *k, const sim_launch *l) { /* the element twice and a byte of the mask */
    return moves(int32_at(l, k->by->a) * (2 * k->element_bytes + 1));
}
static sim_cost by_index(const kernel *k, const sim_launch *l) { /* the element twice and its index */
    return moves(int64_at(l, 0) * (2 * k->element_bytes + 8));
}

/* ---- pointwise kernels ---- */

static double operand_sum(const kernel *k) {
    double sum = 0;
    for (int i = 0; i < k->operands; i++) sum += k->operand_bytes[i];
    return sum;
}
static sim_cost contiguous(const kernel *k, const sim_launch *l) { return moves(int32_at(l, 0) * operand_sum(k)); }

/* With casts the loader and the storer hold the true sizes: types of a byte each, then sizes of four. */
static sim_cost unrolled(const kernel *k, const sim_launch *l) {
    const char *casts = strstr(k->name, "12LoadWithCastILi");
    if (!casts) return contiguous(k, l);
    int inputs = atoi(casts + 17);
    if (inputs < 1 || inputs >= OPERANDS) return contiguous(k, l);
    const uint32_t *in = (const uint32_t *)((char *)l->args[5] + (inputs + 3) / 4 * 4);
    double bytes = ((const uint32_t *)l->args[6])[1];
    for (int i = 0; i < inputs; i++) bytes += in[i];
    return moves(int32_at(l, 0) * bytes);
}

/* Its closure begins with an offset calculator: dimensions, 25 dividers of 12 bytes, strides of each operand by
   dimension; then the data pointers. An operand with stride 0 is broadcast: it is read once along that dimension. */
enum { DIMENSIONS = 25, STRIDES_AT = 4 + 12 * DIMENSIONS };
static sim_cost strided(const kernel *k, const sim_launch *l) {
    const char *closure = l->args[1];
    int dimensions = *(const int *)closure, n = k->operands;
    size_t data_at = (STRIDES_AT + 4 * (size_t)DIMENSIONS * (size_t)n + 7) / 8 * 8;
    bool known = dimensions >= 0 && dimensions <= DIMENSIONS;
    for (int i = 0; known && i < n; i++)
        known = sim_find(((void *const *)(closure + data_at))[i], NULL, NULL, NULL) != SIM_NOWHERE;
    if (!known) return contiguous(k, l);
    double bytes = 0;
    for (int i = 0; i < n; i++) {
        double count = 1;
        for (int d = 0; d < dimensions; d++)
            if (((const uint32_t *)(closure + STRIDES_AT))[d * n + i])
                count *= *(const uint32_t *)(closure + 4 + 12 * d);
        bytes += count * k->operand_bytes[i];
    }
    return moves(bytes);
}

const sim_reduction *sim_reduction_of(const sim_launch *l) {
    for (int at = 0; at <= 64; at += 4) {
        const sim_reduction *r = (const sim_reduction *)((char *)l->args[0] + at);
        if (r->width != (int)l->block[0] || r->height != (int)l->block[1] || r->threads != r->width * r->height)
            continue;
        if (r->element >= 1 && r->element <= 32 && r->inputs >= 1 && r->outputs >= 1) return r;
    }
    return NULL;
}
static sim_cost reduced(const kernel *k, const sim_launch *l) {
    const sim_reduction *r = sim_reduction_of(l);
    return r ? moves(((double)r->inputs + 1) * r->outputs * k->element_bytes) : by_threads(k, l);
}

/* ---- lists of tensors: optimizers and torch._foreach_* ---- */

enum { CHUNK = 65536 };
typedef struct { int tensors[5], blocks, index_bytes; } list_layout; /* tensors by how many lists there are */
static const list_layout plain[] = {{{110, 64, 48, 36, 30}, 320, 1}, {{770, 448, 336, 252, 210}, 2240, 2}};
static const list_layout scalars[] = {{{96, 64, 48, 36, 30}, 320, 1}, {{672, 448, 336, 252, 210}, 2240, 2}};

static int index_at(const char *at, int i, int bytes) {
    return bytes == 1 ? ((const uint8_t *)at)[i] : ((const uint16_t *)at)[i];
}

/* Elements of one launch under this layout; -1 where it contradicts itself, so that it is another one. */
static double count_list(const char *list, const list_layout *layout, int lists, size_t per_tensor, unsigned blocks) {
    int tensors = layout->tensors[lists - 1];
    const char *counts = list + 8 * tensors * lists;
    const char *of_block = counts + 8 * tensors + (size_t)tensors * per_tensor;
    const char *chunks = of_block + layout->blocks * layout->index_bytes;
    double sum = 0;
    if (blocks > (unsigned)layout->blocks) return -1;
    for (unsigned b = 0; b < blocks; b++) {
        int tensor = index_at(of_block, (int)b, layout->index_bytes);
        int64_t first = (int64_t)CHUNK * ((const int *)chunks)[b];
        if (tensor >= tensors) return -1;
        int64_t left = ((const int64_t *)counts)[tensor] - first;
        if (first < 0 || left <= 0 || left > (1ll << 40)) return -1;
        sum += left < CHUNK ? (double)left : CHUNK;
    }
    return sum;
}

/* Reads and writes: of a fused optimizer all lists and all but the gradients, else what the functor's numbers say. */
static double list_passes(const char *name, int lists) {
    const char *functor = strstr(name, "FunctorI"), *at;
    int depth, inputs, result;
    if (strstr(name, "Fused")) return 2 * lists - 1;
    if (strstr(name, "LpNorm") || strstr(name, "LpMax")) return 1;
    for (at = functor; at && (at = strstr(at, "Li")); at++)
        if (sscanf(at, "Li%dELi%dELi%dE", &depth, &inputs, &result) == 3) return inputs + 1;
    return lists + 1;
}
static sim_cost foreach(const kernel *k, const sim_launch *l) {
    const char *name = k->name, *depth = strstr(name, "MetadataI");
    bool has_steps = strstr(name, "FusedOptimizerTensorListMetadata"),
         has_scalars = strstr(name, "TensorListScalarListMetadata");
    double scalar = 0, count = -1;
    if (!depth) return by_threads(k, l);
    depth += strlen("MetadataI");
    if (has_scalars) scalar = read_type(&depth, 4);
    int lists = !strncmp(depth, "Li", 2) ? atoi(depth + 2) : 0;
    if (lists < 1 || lists > 5) return by_threads(k, l);
    for (int i = 0; i < 2 && count < 0; i++)
        count = count_list(l->args[0], has_scalars ? &scalars[i] : &plain[i], lists, has_steps ? 8 : (size_t)scalar,
                           l->grid[0]);
    if (count < 0) return by_threads(k, l);
    return moves(count * k->element_bytes * list_passes(name, lists));
}

/* torch.cat: pointers, offsets, sizes along the dimension and counts of up to n inputs, of which grid.y are there. */
static sim_cost concatenated(const kernel *k, const sim_launch *l) {
    const char *types = strstr(k->name, "OpaqueTypeILj");
    int dimensions, batch;
    if (!(types = types ? strstr(types, "EEjLi") : NULL) || sscanf(types, "EEjLi%dELi%dE", &dimensions, &batch) != 2)
        return by_threads(k, l);
    const uint32_t *counts = (const uint32_t *)((char *)l->args[1] + batch * 16);
    double sum = 0;
    for (unsigned i = 0; i < l->grid[1] && i < (unsigned)batch; i++) sum += counts[i];
    return elements(k, sum);
}

/* ---- attention: forward two products of queries x keys x head, backward five ---- */

static sim_cost attention(const kernel *k, double heads, double queries, double keys, double head, bool causal,
                          double products) {
    double pairs = causal ? (keys >= queries ? queries * (keys - queries / 2) : keys * keys / 2) : queries * keys;
    bool bfloat = strstr(k->name, "bfloat16") || strstr(k->name, "_bf16_"), tensor_cores = strstr(k->name, "_sm80");
    sim_rate rate = k->is_half ? (bfloat ? SIM_BF16 : SIM_FP16) : tensor_cores ? SIM_TF32 : SIM_FP32;
    double times = k->is_half || !tensor_cores ? 1 : 3; /* float by three products of TF32 */
    return (sim_cost){.flops = 2 * times * products * heads * pairs * head, .rate = rate,
                      .bytes = heads * (2 * queries + 2 * keys) * head * k->element_bytes * (products > 2 ? 2 : 1)};
}
typedef struct {
    void *query, *key, *value;
    int64_t strides[9];
    int heads, key_heads, ratio, pad;
    void *output, *accumulated;
    int64_t output_strides[3];
    void *probabilities, *sums, *accumulated_sums;
    int batch, queries, keys, new_keys, head;
} flash_parameters;
static sim_cost flash(const kernel *k, const sim_launch *l) {
    const flash_parameters *p = l->args[0];
    if (p->heads < 1 || p->batch < 1 || p->queries < 1 || p->keys < 1 || p->head < 1 || p->head > 1024)
        return by_threads(k, l);
    return attention(k, (double)p->heads * p->batch, p->queries, p->keys, p->head, k->is_causal, k->by->passes);
}
/* Memory-efficient attention: head sizes, queries and keys lie at `a`, the kind of mask at `b`. */
static sim_cost efficient(const kernel *k, const sim_launch *l) {
    const int *sizes = (const int *)((char *)l->args[0] + k->by->a);
    double heads = (double)l->grid[1] * l->grid[2];
    if (sizes[0] < 1 || sizes[0] > 65536 || sizes[2] < 1 || sizes[3] < 1) return by_threads(k, l);
    bool causal = *((char *)l->args[0] + k->by->b) != 0;
    return attention(k, heads, sizes[2], sizes[3], (sizes[0] + sizes[1]) / 2., causal, k->by->passes);
}

/* ---- the table ---- */

#if CUDA_MAJOR < 13
enum { BACKWARD_MASK_AT = 164 };
#else
enum { BACKWARD_MASK_AT = 168 };
#endif
static const rule rules[] = {
    {"29vectorized_elementwise_kernel", contiguous, 0, 0, 0},
    {"39vectorized_templated_elementwise_kernel", contiguous, 0, 0, 0},
    {"27unrolled_elementwise_kernelI", unrolled, 0, 0, 0},
    {"18elementwise_kernelI", strided, 0, 0, 0},
    {"24index_elementwise_kernel", by_index, 0, 0, 0},
    {"28elementwise_kernel_with_index", by_int64, 0, 0, 1},
    {"distribution_elementwise_grid_stride_kernel", by_int64, 0, 0, 1},
    {"13reduce_kernel", reduced, 0, 0, 0},
    {"multi_tensor_apply_kernel", foreach, 0, 0, 0},
    {"CatArrayBatchedCopy", concatenated, 0, 0, 2},
    {"softmax_warp_forward", by_product32, 2, 4, 2},
    {"softmax_warp_backward", by_product32, 3, 5, 3},
    {"cunn_SoftMaxForward", by_rows32, 2, 0, 2}, /* a block for each row */
    {"cunn_SoftMaxBackward", by_rows32, 3, 0, 3},
    {"vectorized_layer_norm_kernel", by_rows32, 0, 0, 2},
    {"RowwiseMomentsCUDAKernel", by_rows64, 0, 0, 1},
    {"LayerNormForwardCUDAKernel", by_rows64, 0, 0, 2},
    {"layer_norm_grad_input_kernel", by_rows32, 6, 0, 3},
    {"GammaBetaBackward", by_product64, 0, 1, 2},
    {"fused_dropout_kernel", by_mask, 3, 0, 0},
    {"transpose_copy_tiled_kernel", by_product64, 2, 3, 2},
    {"batch_norm_collect_statistics_kernel", by_accessor, 0, 0, 1},
    {"batch_norm_transform_input_kernel", by_accessor, 0, 0, 2},
    {"batch_norm_backward_kernel", by_accessor, 0, 0, 5}, /* two reads for the sums, then three */
    {"batch_norm_collect_statistics_channels_last", by_product32, 5, 6, 1},
    {"batch_norm_transform_input_channels_last", by_product32, 7, 8, 2},
    {"batch_norm_backward_reduce_channels_last", by_product32, 10, 11, 2},
    {"max_pool_forward_nchw", by_int32, 0, 0, 7}, /* of each output: four inputs, itself, and an index of 64 bits */
    {"flash_fwd_kernel", flash, 0, 0, 2},
    {"flash_fwd_splitkv_kernel", flash, 0, 0, 2},
    {"flash_bwd_dq_dk_dv", flash, 0, 0, 5},
    {"fmha_cutlassF", efficient, 96, 116, 2},
    {"fmha_cutlassB", efficient, 144, BACKWARD_MASK_AT, 5},
};
static const rule by_default = {"", by_threads, 0, 0, 0};

/* ---- what a name tells is kept ---- */

static bool flag_after(const char *name, const char *kernel_part, int which) { /* the kernel's own template flags */
    const char *at = strstr(name, kernel_part);
    at = at ? strstr(at, "EELb") : NULL;
    return at && strlen(at) > 4u * (unsigned)which + 5 && at[4 * which + 4] == '1';
}

static void read_name(kernel *k, const char *name) {
    *k = (kernel){.name = name, .by = &by_default};
    for (size_t i = 0; i < sizeof rules / sizeof *rules && k->by == &by_default; i++)
        if (strstr(name, rules[i].part)) k->by = &rules[i];
    const char *types = k->by == &by_default ? name : strstr(name, k->by->part);
    k->element_bytes = first_type(types);
    if (k->by->cost == foreach && (types = strstr(name, "FunctorI"))) k->element_bytes = first_type(types + 7);
    if (k->by->cost == flash || (k->by->cost == efficient && !strstr(name, "_f32_")))
        k->is_half = true, k->element_bytes = 2;
    if (!k->element_bytes) k->element_bytes = 4;
    k->is_causal = k->by->cost == flash && flag_after(name, k->by->part, 1);
    read_operands(k);
}

static const kernel *known(const char *name) {
    static kernel **table;
    static size_t room, count;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (2 * (count + 1) > room) {
        kernel **before = table;
        size_t had = room;
        room = had ? 2 * had : 1024;
        table = calloc(room, sizeof *table);
        for (size_t i = 0; i < had; i++)
            if (before[i]) {
                size_t at = ((uintptr_t)before[i]->name >> 3) % room;
                while (table[at]) at = (at + 1) % room;
                table[at] = before[i];
            }
        free(before);
    }
    size_t at = ((uintptr_t)name >> 3) % room;
    while (table[at] && table[at]->name != name) at = (at + 1) % room;
    if (!table[at]) {
        read_name(table[at] = malloc(sizeof(kernel)), name);
        count++;
    }
    const kernel *k = table[at];
    pthread_mutex_unlock(&lock);
    return k;
}

sim_cost sim_cost_of(const char *name, const sim_launch *l) {
    const kernel *k = known(name);
    return l->args ? k->by->cost(k, l) : by_threads(k, l);
}

void sim_run(sim_stream *s, const char *name, sim_cost cost, const sim_launch *l) {
    memcpy(s->grid, l->grid, sizeof s->grid), memcpy(s->block, l->block, sizeof s->block);
    sim_kernel(s, cost.flops, cost.rate, cost.bytes, name);
    memset(s->grid, 0, sizeof s->grid), memset(s->block, 0, sizeof s->block);
}
