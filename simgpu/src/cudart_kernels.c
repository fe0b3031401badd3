/* The few kernels that compute: what training decides on is read back as single numbers, so kernels on few elements
   really run here, on host memory.

   - Fills of any size (GradScaler's scale, torch.ones).
   - Pointwise kernels on at most SMALL contiguous elements: sums, products, quotients, comparisons, absolute values,
     conversions, and, or, not. An operation that isn't among them gives 0.
   - Products with a constant of any size, in a process that has joined others through nccl: DDP's averages.
   - Whole reductions of at most SMALL contiguous elements by sum, mean, any, all; others give 0, "all" gives true,
     where their outputs are few.
   - The loss of class probabilities is that of guessing, the logarithm of the number of classes. GradScaler's update.

   All else leaves in its output what lay there. So a loss is finite, not true. */
#include "cudart.h"
#include "numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 4096 };
typedef enum { NONE, BOOL, BYTE, INT32, INT64, HALF, BFLOAT, FLOAT, DOUBLE } type;

static size_t bytes_of(type t) {
    return t == NONE ? 0 : t <= BYTE ? 1 : t == HALF || t == BFLOAT ? 2 : t == INT32 || t == FLOAT ? 4 : 8;
}

/* ---- numbers of each type ---- */

static double get(const void *at, type t, size_t i) {
    switch (t) {
    case BOOL: case BYTE: return ((const uint8_t *)at)[i];
    case INT32: return ((const int32_t *)at)[i];
    case INT64: return (double)((const int64_t *)at)[i];
    case FLOAT: return ((const float *)at)[i];
    case DOUBLE: return ((const double *)at)[i];
    case HALF: return from_float16(((const uint16_t *)at)[i]);
    case BFLOAT: return from_bfloat16(((const uint16_t *)at)[i]);
    default: return 0;
    }
}
static void put(void *at, type t, size_t i, double x) {
    switch (t) {
    case BOOL: ((uint8_t *)at)[i] = x != 0; break;
    case BYTE: ((uint8_t *)at)[i] = (uint8_t)x; break;
    case INT32: ((int32_t *)at)[i] = (int32_t)x; break;
    case INT64: ((int64_t *)at)[i] = (int64_t)x; break;
    case FLOAT: ((float *)at)[i] = (float)x; break;
    case DOUBLE: ((double *)at)[i] = x; break;
    case HALF: ((uint16_t *)at)[i] = to_float16((float)x); break;
    case BFLOAT: ((uint16_t *)at)[i] = to_bfloat16((float)x); break;
    default: break;
    }
}

/* The type that begins here in a mangled name, and past it. */
static type read_type(const char **at) {
    static const struct { const char *text; type is; } types[] = {
        {"N3c108BFloat16E", BFLOAT}, {"N3c104HalfE", HALF}, {"f", FLOAT}, {"d", DOUBLE}, {"l", INT64}, {"i", INT32},
        {"b", BOOL}, {"h", BYTE},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strncmp(*at, types[i].text, strlen(types[i].text))) return *at += strlen(types[i].text), types[i].is;
    return NONE;
}
static type type_after(const char *name, const char *part) {
    const char *at = strstr(name, part);
    if (!at) return NONE;
    at += strlen(part);
    return read_type(&at);
}

/* ---- fills ---- */

static void fill(type t, size_t count, const void *value, char *to) {
    static const char zero[8];
    size_t bytes = bytes_of(t);
    if (bytes && !memcmp(value, zero, bytes)) sim_set(to, 0, count * bytes);
    else if (bytes && (int64_t)(count * bytes) <= sim_copy_limit_bytes)
        for (size_t i = 0; i < count; i++) memcpy(to + i * bytes, value, bytes);
}

/* ---- pointwise ---- */

typedef enum {
    ZERO,
    ADD,
    ADD_CONSTANT,
    CONSTANT_ADD,
    MULTIPLY,
    DIVIDE,
    EQUAL,
    COPY,
    ABSOLUTE,
    NEGATIVE,
    AND,
    OR,
    NOT
} operation;
static const struct {
    const char *part;
    operation does;
} operations[] = {
    {"15CUDAFunctor_addI", ADD},
    {"22CUDAFunctorOnOther_addI", CONSTANT_ADD},
    {"21CUDAFunctorOnSelf_addI", ADD_CONSTANT},
    {"10MulFunctorI", MULTIPLY},
    {"11MulFunctorI", MULTIPLY},
    {"10DivFunctorI", DIVIDE},
    {"16CompareEqFunctorI", EQUAL},
    {"copy_kernel_cuda", COPY},
    {"10AbsFunctorI", ABSOLUTE},
    {"15neg_kernel_cuda", NEGATIVE},
    {"17BitwiseAndFunctorI", AND},
    {"16BitwiseOrFunctorI", OR},
    {"23bitwise_not_kernel_cuda", NOT},
    {"23logical_not_kernel_cuda", NOT},
};

static double combine(operation does, double a, double b, double alpha, bool negated) {
    switch (does) {
    case ADD: return a + alpha * b;
    case MULTIPLY: return a * b;
    case DIVIDE: return a / b;
    case EQUAL: return (a == b) != negated;
    case COPY: return a;
    case ABSOLUTE: return fabs(a);
    case NEGATIVE: return -a;
    case AND: return a != 0 && b != 0;
    case OR: return a != 0 || b != 0;
    case NOT: return a == 0;
    default: return 0;
    }
}

/* Types of output, first and second input, as the name has them. */
typedef struct { operation does; type out, a, b; bool a_is_constant, b_is_constant; } pointwise;

static pointwise read_pointwise(const char *name) {
    pointwise p = {.does = ZERO};
    for (size_t i = 0; i < sizeof operations / sizeof *operations && !p.does; i++)
        if (strstr(name, operations[i].part)) p.does = operations[i].does;
    static const char *const binary[] = {"13BinaryFunctorI", "13AUnaryFunctorI", "13BUnaryFunctorI"};
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(name, binary[i]);
        if (!at) continue;
        at += strlen(binary[i]);
        p.a = read_type(&at);
        bool boolean =
            *at != 'S' ? (read_type(&at), *at == 'b') : (at = strchr(at, '_') ? strchr(at, '_') + 1 : at, *at == 'b');
        p.b = p.a, p.out = boolean ? BOOL : p.a;
        p.a_is_constant = i == 1, p.b_is_constant = i == 2;
        return p;
    }
    static const char *const same[] = {"Functor_addI", "OnOther_addI", "OnSelf_addI", "10AbsFunctorI", "EUl"};
    for (int i = 0; i < 5 && !p.out; i++) p.out = p.a = p.b = type_after(name, same[i]);
    if (strstr(name, "bfloat16_copy_kernel_cuda")) p.out = BFLOAT, p.a = FLOAT;
    else if (strstr(name, "float16_copy_kernel_cuda")) p.out = HALF, p.a = FLOAT;
    else if (strstr(name, "27converting_copy_kernel_cudaI")) {
        const char *at = strstr(name, "27converting_copy_kernel_cudaI") + 30;
        p.a = read_type(&at), p.out = read_type(&at);
    } else if (strstr(name, "compare_scalar_kernel")) p.out = BOOL;
    return p;
}

static type type_of_code(int code) { /* as c10::ScalarType numbers them */
    static const type types[] = {BYTE, BYTE, NONE, INT32, INT64, HALF, FLOAT, DOUBLE,
                                 NONE, NONE, NONE, BOOL,  NONE,  NONE, NONE,  BFLOAT};
    return code >= 0 && code < 16 ? types[code] : NONE;
}

/* A type misread would lead past its block. One of expandable segments lies in several mappings, side by side. */
static bool is_there(const char *data, type t, size_t count) {
    const char *end = data + bytes_of(t) * count;
    char *base = NULL;
    for (size_t bytes = 0; data < end; data = base + bytes)
        if (sim_find(data, (void **)&base, &bytes, NULL) != SIM_ON_DEVICE) return false;
    return true;
}

/* How a functor holds its own numbers, and the constant among them. */
static type type_of_numbers(const pointwise *p) {
    return p->does != EQUAL && (p->a == HALF || p->a == BFLOAT) ? FLOAT : p->a;
}
static double constant_of(const pointwise *p, const char *functor) {
    size_t size = bytes_of(type_of_numbers(p));
    return get(functor + (p->does == EQUAL && size < 4 ? 4 : size), type_of_numbers(p), 0);
}

static void compute_pointwise(const char *name, void **args) {
    int count = *(int *)args[0], pointers = atoi(strstr(name, "arrayIPcLm") + 10);
    char *const *data = args[2];
    if (count < 1 || count > SMALL || pointers < 2) return;
    pointwise p = read_pointwise(name);
    if (strstr(name, "12LoadWithCastILi1E"))
        p.a = type_of_code(*(int8_t *)args[5]), p.out = type_of_code(*(int8_t *)args[6]);
    else if (strstr(name, "12LoadWithCast")) return;
    if (!p.out || !p.a || !is_there(data[0], p.out, (size_t)count)) return;
    if (p.does == ZERO) { /* whatever its operands: dropout's are a float and a bool */
        for (size_t i = 0; i < (size_t)count; i++) put(data[0], p.out, i, 0);
        return;
    }
    if (!is_there(data[1], p.a, (size_t)count)) return;
    if (pointers > 2 && !is_there(data[2], p.b, (size_t)count)) return;
    const char *functor = args[1];
    type full = type_of_numbers(&p);
    double constant = 0, alpha = 1;
    bool negated = p.does == EQUAL && *(const int *)functor != 0;
    if (p.a_is_constant || p.b_is_constant) constant = constant_of(&p, functor);
    if (p.does == ADD) alpha = get(functor, full, 0);
    if (p.does == ADD_CONSTANT || p.does == CONSTANT_ADD) {
        double first = get(functor, full, 0), second = get(functor, full, 1);
        alpha = p.does == CONSTANT_ADD ? second : 1, constant = p.does == CONSTANT_ADD ? first : first * second;
    }
    for (size_t i = 0; i < (size_t)count; i++) {
        double a = get(data[1], p.a, i), b = constant;
        if (p.does == ADD_CONSTANT || p.does == CONSTANT_ADD) {
            put(data[0], p.out, i, constant + alpha * a);
            continue;
        }
        if (p.a_is_constant) b = a, a = constant;
        else if (!p.b_is_constant && pointers > 2) b = get(data[2], p.b, i);
        put(data[0], p.out, i, combine(p.does, a, b, alpha, negated));
    }
}

/* What DDP does with its gradients: all of them times a constant. Pages of zeros stay unwritten. */
static void scale(const char *name, void **args) {
    enum { CHUNK = 2048 };
    static const char zeros[CHUNK * sizeof(double)];
    char product[CHUNK * sizeof(double)];
    char *const *data = args[2];
    size_t count = (size_t)*(int *)args[0];
    pointwise p = read_pointwise(name);
    size_t bytes = bytes_of(p.out);
    bool floats = p.out == p.a && p.out >= HALF, one_operand = p.a_is_constant || p.b_is_constant;
    if (p.does != MULTIPLY || !floats || !one_operand || (int64_t)(count * bytes) > sim_copy_limit_bytes) return;
    if (!is_there(data[0], p.out, count) || !is_there(data[1], p.a, count)) return;
    double by = constant_of(&p, args[1]);
    for (size_t i = 0; i < count; i += CHUNK) {
        size_t n = count - i < CHUNK ? count - i : CHUNK;
        const char *from = data[1] + i * bytes;
        bool zero = isfinite(by) && !memcmp(from, zeros, n * bytes);
        for (size_t j = 0; !zero && j < n; j++) put(product, p.out, j, get(from, p.a, j) * by);
        sim_store(data[0] + i * bytes, zero ? zeros : product, n * bytes);
    }
}

/* ---- reductions ---- */

/* Behind its configuration a reduction holds two offset calculators of 25 dimensions with one and two operands, then
   where it reads and writes. */
enum { CALCULATOR_1 = 404, CALCULATOR_2 = 504 };

static void compute_reduction(const char *name, const sim_launch *l) {
    const sim_reduction *c = sim_reduction_of(l);
    const char *types = strstr(name, "8ReduceOpI");
    if (!c || !types) return;
    types += strlen("8ReduceOpI");
    type in = read_type(&types), out = in;
    const char *calculator = (const char *)(c + 1);
    uintptr_t behind = ((uintptr_t)calculator + CALCULATOR_1 + CALCULATOR_2 + 7) / 8 * 8;
    void *const *pointers = (void *const *)behind;
    if (strstr(name, "EjfLi")) out = FLOAT; /* the output's type stands behind the index's */
    else if (strstr(name, "EjbLi")) out = BOOL;
    else if (strstr(name, "EjlLi")) out = INT64;
    size_t written = bytes_of(out) * (size_t)c->outputs, most = 0;
    char *base = NULL;
    if (!in || !written || written > SMALL || sim_find(pointers[1], (void **)&base, &most, NULL) != SIM_ON_DEVICE)
        return;
    if ((char *)pointers[1] + written > base + most || sim_find(pointers[0], NULL, NULL, NULL) != SIM_ON_DEVICE) return;
    bool all = strstr(name, "and_kernel_cuda"), any = strstr(name, "or_kernel_cuda");
    bool mean = strstr(name, "7MeanOpsI"), sum = strstr(name, "11sum_functorI");
    bool whole = c->outputs == 1 && c->inputs <= SMALL && *(const int *)calculator <= 1;
    double value = all;
    if (whole && (all || any || mean || sum)) {
        for (int i = 0; i < c->inputs; i++) {
            double x = get(pointers[0], in, (size_t)i);
            value = all ? value && x != 0 : any ? value || x != 0 : value + x;
        }
        if (mean) value /= c->inputs;
    }
    for (int i = 0; i < c->outputs; i++) put(pointers[1], out, (size_t)i, value);
}

/* ---- what losses and GradScaler are made of ---- */

static void compute_loss(const char *name, void **args) {
    bool is_2d = strstr(name, "cuda_kernel_2d");
    type t = type_after(name, is_2d ? "kernel_2dI" : "kernel_1dI");
    double classes = (double)*(int64_t *)args[is_2d ? 7 : 6], rows = is_2d ? (double)*(int64_t *)args[6] : 1;
    if (!t || !(classes >= 1 && classes < 1e9) || !(rows >= 0)) return;
    bool average = *(bool *)args[5];
    put(*(void **)args[0], t, 0, log(classes) * (average ? 1 : rows));
    put(*(void **)args[1], t, 0, rows);
}
static void compute_image_loss(const char *name, const sim_launch *l) { /* a sum; another kernel divides it */
    type t = type_after(name, "nll_loss2d_forward_kernelI");
    double classes = *(int *)l->args[5], pixels = *(int *)l->args[6], blocks = *(int *)l->args[7];
    if (!t || !(classes >= 1) || !(blocks >= 1)) return;
    double rows = pixels * l->grid[0] / blocks;
    put(*(void **)l->args[0], t, 0, log(classes) * rows);
    put(*(void **)l->args[1], t, 0, rows);
}
static void average_image_loss(const char *name, void **args) {
    type t = type_after(name, "size_average_kernelI");
    void *sum = *(void **)args[0];
    if (t) put(sum, t, 0, get(sum, t, 0) / get(*(void **)args[1], t, 0));
}

static void update_scale(void **args) {
    float *scale = *(float **)args[0], found = **(float **)args[2];
    int *growth = *(int **)args[1];
    if (found > 0) *scale = (float)(*scale * *(double *)args[4]), *growth = 0;
    else if (++*growth == *(int *)args[5]) *scale = (float)(*scale * *(double *)args[3]), *growth = 0;
}

/* ---- which kernel is which ---- */

void sim_compute(const char *name, const sim_launch *l) {
    bool plain = strstr(name, "29vectorized_elementwise_kernelI") || strstr(name, "27unrolled_elementwise_kernelI");
    if (plain && strstr(name, "11FillFunctorI") && strstr(name, "arrayIPcLm1E"))
        fill(type_after(name, "11FillFunctorI"), (size_t)*(int *)l->args[0], l->args[1], *(char **)l->args[2]);
    else if (plain && strstr(name, "arrayIPcLm")) {
        if (*(int *)l->args[0] <= SMALL) compute_pointwise(name, l->args);
        else if (sim_ranks > 1 && strstr(name, "MulFunctorI")) scale(name, l->args);
    } else if (strstr(name, "13reduce_kernelI")) compute_reduction(name, l);
    else if (strstr(name, "nll_loss_forward_reduce_cuda_kernel_")) compute_loss(name, l->args);
    else if (strstr(name, "nll_loss2d_forward_kernelI")) compute_image_loss(name, l);
    else if (strstr(name, "nll_loss2d_forward_size_average_kernelI")) average_image_loss(name, l->args);
    else if (strstr(name, "amp_update_scale_cuda_kernel")) update_scale(l->args);
}

/* How many elements a search found is 0: nonzero() and masked_select() are empty. A single float that no kernel here
   has computed may be whatever lay in its block, labels of -100 among it, which read as NaN: such a number reads 0. */
void sim_read_back(const sim_stream *s, void *value, size_t bytes) {
    uint32_t word = 0;
    if (bytes <= 8 && s->last && strstr(s->last, "3cub")) memset(value, 0, bytes);
    if (bytes != 4 && bytes != 2) return;
    memcpy((char *)&word + 4 - bytes, value, bytes); /* 16 bits: as a bfloat16 */
    bool is_number = (word >> 23 & 0xff) != 0xff && !(bytes == 2 && (word >> 26 & 31) == 31);
    if (!is_number && s->last && !strstr(s->last, "elementwise_kernel") && !strstr(s->last, "reduce_kernel"))
        memset(value, 0, bytes);
}
