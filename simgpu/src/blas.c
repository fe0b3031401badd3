/* libcublas and libcublasLt: products take the time that products.h says and compute nothing.

   What is computed all the same is what programs decide by or what would be an index: dot products and norms, pivots
   and the codes of factorisations. Memory of the device is memory of the host, so that their results can be written at
   once. */
#include "abi/cublas.h"
#include "numbers.h"
#include "products.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef blas_status S;
typedef struct {
    sim_stream *stream;
    int index, math, pointers; /* place in sim_devices; cuBLAS's enumerators */
    int multiprocessors;       /* 0: all; fewer when the caller keeps some free */
    int64_t bytes;
} handle;

/* ---- handles ---- */

S cublasCreate_v2(void **h) {
    int code;
    sim_init();
    if (sim_fails("cublasCreate_v2", &code)) return (S)code;
    if (sim_cuda_count() == 0 || !sim_context()) return BLAS_NOT_INITIALIZED;
    sim_device *d = sim_here();
    if (sim_lost(d->index)) return BLAS_NOT_INITIALIZED;
    if (!sim_take(d->index, d->blas_bytes)) return BLAS_ALLOC_FAILED;
    handle *made = calloc(1, sizeof *made);
    *made = (handle){.stream = sim_stream_of(NULL), .index = d->index, .bytes = d->blas_bytes};
    *h = made;
    return BLAS_OK;
}
S cublasDestroy_v2(handle *h) {
    if (!h) return BLAS_NOT_INITIALIZED;
    sim_give(h->index, h->bytes);
    free(h);
    return BLAS_OK;
}
S cublasSetStream_v2(handle *h, void *stream) { return h->stream = sim_stream_of(stream), BLAS_OK; }
S cublasGetStream_v2(handle *h, void **stream) { return *stream = h->stream, BLAS_OK; }
S cublasSetWorkspace_v2(handle *h, void *at, size_t bytes) { return BLAS_OK; }
S cublasSetMathMode(handle *h, int math) { return h->math = math, BLAS_OK; }
S cublasGetMathMode(handle *h, int *math) { return *math = h->math, BLAS_OK; }
S cublasSetPointerMode_v2(handle *h, int mode) { return h->pointers = mode, BLAS_OK; }
S cublasGetPointerMode_v2(handle *h, int *mode) { return *mode = h->pointers, BLAS_OK; }
S cublasSetSmCountTarget(handle *h, int count) { return h->multiprocessors = count, BLAS_OK; }

/* ---- products ---- */

typedef struct {
    double m, n, k, batches;
    int type, compute; /* the operands' type; 0: computed as the type and the math mode say */
} product;

static double size_of(int type) {
    switch (type) {
    case TYPE_16F: case TYPE_16BF: return 2;
    case TYPE_32F: case TYPE_32I: return 4;
    case TYPE_64F: case TYPE_C32F: return 8;
    case TYPE_C64F: return 16;
    case TYPE_4F_E2M1: return 0.5;
    default: return 1;
    }
}
static bool is_complex(int type) { return type == TYPE_C32F || type == TYPE_C64F; }

/* What may be computed in: single precision is narrowed only where the compute type or the math mode allows it. */
static sim_rate asked_rate(int type, int compute, int math) {
    switch (type) {
    case TYPE_16F: return SIM_FP16;
    case TYPE_16BF: return SIM_BF16;
    case TYPE_64F: case TYPE_C64F: return SIM_FP64;
    case TYPE_8I: case TYPE_8U: return SIM_INT8;
    case TYPE_32F: case TYPE_C32F: break;
    default: return SIM_FP8;
    }
    if (compute == COMPUTE_32F_FAST_TF32) return SIM_TF32;
    if (compute == COMPUTE_32F_FAST_16F) return SIM_FP16;
    if (compute == COMPUTE_32F_FAST_16BF) return SIM_BF16;
    if (compute == COMPUTE_32F_PEDANTIC) return SIM_FP32;
    math &= MATH_CHOICE;
    return math == MATH_TF32 ? SIM_TF32 : math == MATH_TENSOR_OP ? SIM_FP16 : SIM_FP32;
}

static S multiply(sim_stream *stream, int math, int multiprocessors, product p) {
    sim_device *d = sim_device_of(stream->device);
    if (sim_lost(d->index)) return BLAS_EXECUTION_FAILED;
    if (p.m <= 0 || p.n <= 0 || p.batches <= 0) return BLAS_OK;
    sim_rate asked = asked_rate(p.type, p.compute, math), held = product_rate(d, asked);
    if (multiprocessors <= 0 || multiprocessors > d->multiprocessors) multiprocessors = d->multiprocessors;
    double flops = product_flops(multiprocessors, p.m, p.n, p.k, p.batches) * d->multiprocessors / multiprocessors;
    double bytes = p.batches * size_of(p.type) * (p.m * p.k + p.k * p.n + p.m * p.n);
    const char *type = product_type(asked, held), *complex_word = is_complex(p.type) ? "complex " : "";
    const char *name = p.batches == 1
        ? sim_name("gemm %s%s %.0fx%.0fx%.0f", complex_word, type, p.m, p.n, p.k)
        : sim_name("gemm %s%s %.0fx%.0fx%.0f batch %.0f", complex_word, type, p.m, p.n, p.k, p.batches);
    sim_kernel(stream, is_complex(p.type) ? 4 * flops : flops, held, bytes, name);
    return BLAS_OK;
}
static S gemm(handle *h, product p) { return multiply(h->stream, h->math, h->multiprocessors, p); }

/* Every routine of the family for one width of its integers: as cuBLAS names them, those of 64 bits end in _64. */
#define GEMM_OF(letter, T, type, N, end) \
    S cublas##letter##gemmBatched##end(handle *h, int ta, int tb, N m, N n, N k, const T *alpha, const T *const *a, \
                                       N lda, const T *const *b, N ldb, const T *beta, T *const *c, N ldc, \
                                       N batches) { \
        return gemm(h, (product){m, n, k, batches, type, 0}); \
    } \
    S cublas##letter##gemmStridedBatched##end(handle *h, int ta, int tb, N m, N n, N k, const T *alpha, const T *a, \
                                              N lda, long long da, const T *b, N ldb, long long db, const T *beta, \
                                              T *c, N ldc, long long dc, N batches) { \
        return gemm(h, (product){m, n, k, batches, type, 0}); \
    }
#define GEMM_ONE(letter, T, type, N, end) \
    S cublas##letter##gemm_v2##end(handle *h, int ta, int tb, N m, N n, N k, const T *alpha, const T *a, N lda, \
                                   const T *b, N ldb, const T *beta, T *c, N ldc) { \
        return gemm(h, (product){m, n, k, 1, type, 0}); \
    }
#define GEMM_EX(N, end) \
    S cublasSgemm_v2##end(handle *h, int ta, int tb, N m, N n, N k, const float *alpha, const float *a, N lda, \
                          const float *b, N ldb, const float *beta, float *c, N ldc) { \
        int code; \
        if (sim_fails("cublasSgemm_v2", &code)) return (S)code; \
        return gemm(h, (product){m, n, k, 1, TYPE_32F, 0}); \
    } \
    S cublasSgemmEx##end(handle *h, int ta, int tb, N m, N n, N k, const float *alpha, const void *a, int type, N lda, \
                         const void *b, int type_b, N ldb, const float *beta, void *c, int type_c, N ldc) { \
        return gemm(h, (product){m, n, k, 1, type, 0}); \
    } \
    S cublasGemmEx##end(handle *h, int ta, int tb, N m, N n, N k, const void *alpha, const void *a, int type, N lda, \
                        const void *b, int type_b, N ldb, const void *beta, void *c, int type_c, N ldc, int compute, \
                        int algo) { \
        int code; \
        if (sim_fails("cublasGemmEx", &code)) return (S)code; \
        return gemm(h, (product){m, n, k, 1, type, compute}); \
    } \
    S cublasGemmBatchedEx##end(handle *h, int ta, int tb, N m, N n, N k, const void *alpha, const void *const *a, \
                               int type, N lda, const void *const *b, int type_b, N ldb, const void *beta, \
                               void *const *c, int type_c, N ldc, N batches, int compute, int algo) { \
        return gemm(h, (product){m, n, k, batches, type, compute}); \
    } \
    S cublasGemmStridedBatchedEx##end(handle *h, int ta, int tb, N m, N n, N k, const void *alpha, const void *a, \
                                      int type, N lda, long long da, const void *b, int type_b, N ldb, long long db, \
                                      const void *beta, void *c, int type_c, N ldc, long long dc, N batches, \
                                      int compute, int algo) { \
        return gemm(h, (product){m, n, k, batches, type, compute}); \
    }
#define GEMMS(N, end) \
    GEMM_EX(N, end) \
    GEMM_ONE(D, double, TYPE_64F, N, end) \
    GEMM_ONE(C, blas_complex, TYPE_C32F, N, end) \
    GEMM_ONE(Z, blas_double_complex, TYPE_C64F, N, end) \
    GEMM_OF(S, float, TYPE_32F, N, end) \
    GEMM_OF(D, double, TYPE_64F, N, end) \
    GEMM_OF(C, blas_complex, TYPE_C32F, N, end) \
    GEMM_OF(Z, blas_double_complex, TYPE_C64F, N, end)
GEMMS(int, )
GEMMS(int64_t, _64)

/* ---- vectors, and matrices by vectors: as long as their bytes take ---- */

static S pass(handle *h, double bytes, const char *name) {
    if (sim_lost(sim_device_of(h->stream->device)->index)) return BLAS_EXECUTION_FAILED;
    sim_kernel(h->stream, 0, SIM_FP32, bytes, name);
    return BLAS_OK;
}

static double element(const void *x, int type, int64_t i) {
    switch (type) {
    case TYPE_64F: return ((const double *)x)[i];
    case TYPE_32F: return ((const float *)x)[i];
    case TYPE_16BF: return from_bfloat16(((const uint16_t *)x)[i]);
    default: return from_float16(((const uint16_t *)x)[i]);
    }
}

static void put(void *to, int type, double value) {
    switch (type) {
    case TYPE_64F: *(double *)to = value; break;
    case TYPE_32F: *(float *)to = (float)value; break;
    case TYPE_16BF: *(uint16_t *)to = to_bfloat16((float)value); break;
    default: *(uint16_t *)to = to_float16((float)value);
    }
}

static S dot(handle *h, int64_t n, const void *x, int64_t dx, const void *y, int64_t dy, int type, void *to,
             int type_to) {
    double sum = 0;
    if (dx >= 0 && dy >= 0)
        for (int64_t i = 0; i < n; i++) sum += element(x, type, i * dx) * element(y, type, i * dy);
    put(to, type_to, sum);
    return pass(h, 2 * size_of(type) * (double)n, "dot");
}
static S norm(handle *h, int64_t n, const void *x, int64_t dx, int type, void *to) {
    double sum = 0;
    for (int64_t i = 0; i < n && dx > 0; i++) sum += element(x, type, i * dx) * element(x, type, i * dx);
    put(to, type, sqrt(sum));
    return pass(h, size_of(type) * (double)n, "nrm2");
}
S cublasDotEx(handle *h, int n, const void *x, int type, int dx, const void *y, int type_y, int dy, void *to,
              int type_to, int compute) {
    if (is_complex(type)) return (S)sim_missing("cublasDotEx of complex vectors", BLAS_NOT_SUPPORTED);
    return dot(h, n, x, dx, y, dy, type, to, type_to);
}

#define REAL_VECTORS(letter, T, type) \
    S cublas##letter##dot_v2(handle *h, int n, const T *x, int dx, const T *y, int dy, T *to) { \
        return dot(h, n, x, dx, y, dy, type, to, type); \
    } \
    S cublas##letter##nrm2_v2(handle *h, int n, const T *x, int dx, T *to) { \
        return norm(h, n, x, dx, type, to); \
    } \
    S cublas##letter##ger_v2(handle *h, int m, int n, const T *alpha, const T *x, int dx, const T *y, int dy, T *a, \
                             int lda) { \
        return pass(h, 2. * m * n * sizeof(T), "ger"); \
    }
#define VECTORS(letter, T) \
    S cublas##letter##axpy_v2(handle *h, int n, const T *alpha, const T *x, int dx, T *y, int dy) { \
        return pass(h, 3. * n * sizeof(T), "axpy"); \
    } \
    S cublas##letter##scal_v2(handle *h, int n, const T *alpha, T *x, int dx) { \
        return pass(h, 2. * n * sizeof(T), "scal"); \
    } \
    S cublas##letter##copy_v2(handle *h, int n, const T *x, int dx, T *y, int dy) { \
        return pass(h, 2. * n * sizeof(T), "copy"); \
    } \
    S cublas##letter##swap_v2(handle *h, int n, T *x, int dx, T *y, int dy) { \
        return pass(h, 4. * n * sizeof(T), "swap"); \
    } \
    S cublas##letter##gemv_v2(handle *h, int op, int m, int n, const T *alpha, const T *a, int lda, const T *x, \
                              int dx, const T *beta, T *y, int dy) { \
        return pass(h, ((double)m * n + m + n) * sizeof(T), sim_name("gemv %dx%d", m, n)); \
    }
REAL_VECTORS(S, float, TYPE_32F)
REAL_VECTORS(D, double, TYPE_64F)
VECTORS(S, float)
VECTORS(D, double)
VECTORS(C, blas_complex)
VECTORS(Z, blas_double_complex)

/* ---- triangular systems and factorisations: as long as their operations or bytes take ---- */

static S solve(handle *h, double flops, double bytes, int type, const char *name) {
    sim_device *d = sim_device_of(h->stream->device);
    if (sim_lost(d->index)) return BLAS_EXECUTION_FAILED;
    sim_rate rate = product_rate(d, type == TYPE_64F || type == TYPE_C64F ? SIM_FP64 : SIM_FP32);
    sim_kernel(h->stream, is_complex(type) ? 4 * flops : flops, rate, bytes, name);
    return BLAS_OK;
}
static S triangle(handle *h, int side, double m, double n, double batches, int type) {
    double order = side == SIDE_LEFT ? m : n;
    return solve(h, batches * order * m * n, batches * size_of(type) * (order * order / 2 + 2 * m * n), type,
                 sim_name("trsm %.0fx%.0f", m, n));
}
static S factor(handle *h, int n, int batches, int *pivots, int *info, int type) { /* as if no rows were exchanged */
    for (int i = 0; pivots && i < n * batches; i++) pivots[i] = i % n + 1;
    memset(info, 0, sizeof *info * (size_t)batches);
    return solve(h, 2. / 3 * n * n * n * batches, 2. * n * n * batches * size_of(type), type,
                 sim_name("getrf %dx%d", n, n));
}
#define SOLVERS(letter, T, type) \
    S cublas##letter##trsm_v2(handle *h, int side, int fill, int op, int unit, int m, int n, const T *alpha, \
                              const T *a, int lda, T *b, int ldb) { \
        return triangle(h, side, m, n, 1, type); \
    } \
    S cublas##letter##trsmBatched(handle *h, int side, int fill, int op, int unit, int m, int n, const T *alpha, \
                                  const T *const *a, int lda, T *const *b, int ldb, int batches) { \
        return triangle(h, side, m, n, batches, type); \
    } \
    S cublas##letter##getrfBatched(handle *h, int n, T *const *a, int lda, int *pivots, int *info, int batches) { \
        return factor(h, n, batches, pivots, info, type); \
    } \
    S cublas##letter##getrsBatched(handle *h, int op, int n, int columns, const T *const *a, int lda, \
                                   const int *pivots, T *const *b, int ldb, int *info, int batches) { \
        *info = 0; /* on the host: whether an argument was wrong */ \
        return solve(h, 2. * n * n * columns * batches, ((double)n * n + 2. * n * columns) * batches * sizeof(T), \
                     type, sim_name("getrs %dx%d", n, columns)); \
    }
SOLVERS(S, float, TYPE_32F)
SOLVERS(D, double, TYPE_64F)
SOLVERS(C, blas_complex, TYPE_C32F)
SOLVERS(Z, blas_double_complex, TYPE_C64F)

/* ---- cublasLt: descriptors keep what decides the cost; torch passes cuBLAS's handle as cublasLt's ---- */

typedef struct { int32_t type, batches; uint64_t rows, cols; } layout;
typedef struct { int32_t compute, scale, transposes_a, multiprocessors; } multiplication;

size_t cublasLtGetVersion(void) { return CUDA_MAJOR * 10000 + CUDA_MINOR * 100; }
S cublasLtMatrixLayoutCreate(layout **l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    *l = malloc(sizeof **l);
    **l = (layout){type, 1, rows, cols};
    return BLAS_OK;
}
S cublasLtMatrixLayoutDestroy(layout *l) { return free(l), BLAS_OK; }
S cublasLtMatrixLayoutSetAttribute(layout *l, int attribute, const void *value, size_t bytes) {
    if (attribute == LT_LAYOUT_TYPE) memcpy(&l->type, value, sizeof l->type);
    else if (attribute == LT_LAYOUT_ROWS) memcpy(&l->rows, value, sizeof l->rows);
    else if (attribute == LT_LAYOUT_COLS) memcpy(&l->cols, value, sizeof l->cols);
    else if (attribute == LT_LAYOUT_BATCH_COUNT) memcpy(&l->batches, value, sizeof l->batches);
    return BLAS_OK;
}
S cublasLtMatmulDescCreate(multiplication **d, int compute, int scale) {
    *d = malloc(sizeof **d);
    **d = (multiplication){compute, scale, OP_N, 0};
    return BLAS_OK;
}
S cublasLtMatmulDescDestroy(multiplication *d) { return free(d), BLAS_OK; }
S cublasLtMatmulDescSetAttribute(multiplication *d, int attribute, const void *value, size_t bytes) {
    if (attribute == LT_DESC_COMPUTE_TYPE) memcpy(&d->compute, value, sizeof d->compute);
    else if (attribute == LT_DESC_TRANSA) memcpy(&d->transposes_a, value, sizeof d->transposes_a);
    else if (attribute == LT_DESC_SM_COUNT_TARGET) memcpy(&d->multiprocessors, value, sizeof d->multiprocessors);
    return BLAS_OK; /* the others (bias, activation, scales) are part of the same kernel and cost nothing */
}
S cublasLtMatmulPreferenceCreate(void **p) { return *p = calloc(1, 64), BLAS_OK; }
S cublasLtMatmulPreferenceDestroy(void *p) { return free(p), BLAS_OK; }
S cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t bytes) { return BLAS_OK; }

/* fp8 and fp4 have no emulation: a device without units for them has no algorithm. */
static bool has_algorithm(const layout *a) {
    sim_rate asked = asked_rate(a->type, 0, 0);
    return asked != SIM_FP8 || sim_here()->flops_per_s[SIM_FP8] > 0;
}
S cublasLtMatmulAlgoGetHeuristic(void *h, multiplication *d, layout *a, layout *b, layout *c, layout *to,
                                 void *preference, int wanted, blaslt_result *results, int *found) {
    *found = has_algorithm(a) && wanted > 0;
    if (!*found) return BLAS_NOT_SUPPORTED;
    memset(results, 0, sizeof *results);
    results->waves = 1;
    return BLAS_OK;
}
S cublasLtMatmulAlgoInit(void *h, int compute, int scale, int type_a, int type_b, int type_c, int type_d, int id,
                         blaslt_algo *algo) {
    memset(algo, 0, sizeof *algo);
    memcpy(algo->data, &id, sizeof id);
    return id == 0 ? BLAS_OK : BLAS_INVALID_VALUE; /* there is one */
}
S cublasLtMatmulAlgoCheck(void *h, multiplication *d, layout *a, layout *b, layout *c, layout *to,
                          const blaslt_algo *algo, blaslt_result *result) {
    memset(result, 0, sizeof *result);
    result->algo = *algo, result->waves = 1, result->state = has_algorithm(a) ? BLAS_OK : BLAS_NOT_SUPPORTED;
    return (S)result->state;
}
S cublasLtMatmulAlgoConfigSetAttribute(blaslt_algo *algo, int attribute, const void *value, size_t bytes) {
    if (attribute < 0 || attribute >= LT_ALGO_CONFIGS || bytes > 4) return BLAS_INVALID_VALUE;
    memcpy((char *)algo + 4 * attribute, value, bytes);
    return BLAS_OK;
}
S cublasLtMatmulAlgoConfigGetAttribute(const blaslt_algo *algo, int attribute, void *value, size_t bytes,
                                       size_t *written) {
    if (attribute < 0 || attribute >= LT_ALGO_CONFIGS || bytes > 4) return BLAS_INVALID_VALUE;
    memcpy(value, (const char *)algo + 4 * attribute, bytes);
    if (written) *written = bytes;
    return BLAS_OK;
}
S cublasLtMatmul(void *h, multiplication *d, const void *alpha, const void *a, layout *la, const void *b, layout *lb,
                 const void *beta, const void *c, layout *lc, void *to, layout *lto, const blaslt_algo *algo,
                 void *workspace, size_t bytes, void *stream) {
    int code;
    if (sim_fails("cublasLtMatmul", &code)) return (S)code;
    if (!has_algorithm(la)) return BLAS_NOT_SUPPORTED;
    double k = (double)(d->transposes_a == OP_N ? la->cols : la->rows);
    product p = {(double)lto->rows, (double)lto->cols, k, lto->batches, la->type, d->compute};
    return multiply(sim_stream_of(stream), MATH_DEFAULT, d->multiprocessors, p);
}
