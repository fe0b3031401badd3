/* NCCL's arithmetic, on host memory. Half precision is added up in single and rounded once, to nearest even. */
#include "nccl_parts.h"
#include "numbers.h"

size_t nccl_type_bytes(nccl_type type) {
    static const uint8_t bytes[NCCL_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return (unsigned)type < NCCL_TYPES ? bytes[type] : 0;
}

bool nccl_can_reduce(nccl_type type) { return (unsigned)type < NCCL_FLOAT8_E4M3; }

#define SAME(x) (x)
#define WRAPPING_SUM(a, b) ((__typeof__(a))((uint64_t)(a) + (uint64_t)(b)))
#define WRAPPING_PRODUCT(a, b) ((__typeof__(a))((uint64_t)(a) * (uint64_t)(b)))
#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define SMALLER(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))

#define EACH(T, A, FROM, TO, WITH, SCALED, LAST) \
    for (size_t i = 0; i < elements; i++) { \
        A sum = SCALED(FROM(((const T *)parts[0])[i])); \
        for (int r = 1; r < count; r++) { \
            A next = SCALED(FROM(((const T *)parts[r])[i])); \
            sum = WITH(sum, next); \
        } \
        ((T *)out)[i] = TO(LAST(sum)); \
    }
#define MEAN(x) ((x) / (__typeof__(x))count)
#define TIMES(x) TIMES_BY(x, scale)
#define TIMES_BY(x, by) ((__typeof__(x))((x) * (by)))

/* T: as stored; A: as added up; FROM and TO lead from one to the other. */
#define COMBINE(name, T, A, FROM, TO, ADD, MULTIPLY) \
    static void name(void *out, const void *const parts[], int count, size_t elements, nccl_reduction how, \
                     const void *factor) { \
        A scale = factor ? (A)FROM(*(const T *)factor) : (A)1; \
        if (factor) EACH(T, A, FROM, TO, ADD, TIMES, SAME) \
        else if (how == NCCL_SUM) EACH(T, A, FROM, TO, ADD, SAME, SAME) \
        else if (how == NCCL_AVG) EACH(T, A, FROM, TO, ADD, SAME, MEAN) \
        else if (how == NCCL_PROD) EACH(T, A, FROM, TO, MULTIPLY, SAME, SAME) \
        else if (how == NCCL_MAX) EACH(T, A, FROM, TO, LARGER, SAME, SAME) \
        else EACH(T, A, FROM, TO, SMALLER, SAME, SAME) \
    }
COMBINE(combine_int8, int8_t, int64_t, SAME, (int8_t), WRAPPING_SUM, WRAPPING_PRODUCT)
COMBINE(combine_uint8, uint8_t, uint64_t, SAME, (uint8_t), WRAPPING_SUM, WRAPPING_PRODUCT)
COMBINE(combine_int32, int32_t, int64_t, SAME, (int32_t), WRAPPING_SUM, WRAPPING_PRODUCT)
COMBINE(combine_uint32, uint32_t, uint64_t, SAME, (uint32_t), WRAPPING_SUM, WRAPPING_PRODUCT)
COMBINE(combine_int64, int64_t, int64_t, SAME, (int64_t), WRAPPING_SUM, WRAPPING_PRODUCT)
COMBINE(combine_uint64, uint64_t, uint64_t, SAME, (uint64_t), WRAPPING_SUM, WRAPPING_PRODUCT)
COMBINE(combine_float16, uint16_t, float, from_float16, to_float16, SUM, PRODUCT)
COMBINE(combine_bfloat16, uint16_t, float, from_bfloat16, to_bfloat16, SUM, PRODUCT)
COMBINE(combine_float32, float, float, SAME, SAME, SUM, PRODUCT)
COMBINE(combine_float64, double, double, SAME, SAME, SUM, PRODUCT)

void nccl_combine(void *out, const void *const parts[], int count, size_t elements, nccl_type type, nccl_reduction how,
                  const void *factor) {
    static void (*const by_type[])(void *, const void *const[], int, size_t, nccl_reduction, const void *) = {
        [NCCL_INT8] = combine_int8, [NCCL_UINT8] = combine_uint8, [NCCL_INT32] = combine_int32,
        [NCCL_UINT32] = combine_uint32, [NCCL_INT64] = combine_int64, [NCCL_UINT64] = combine_uint64,
        [NCCL_FLOAT16] = combine_float16, [NCCL_FLOAT32] = combine_float32, [NCCL_FLOAT64] = combine_float64,
        [NCCL_BFLOAT16] = combine_bfloat16};
    by_type[type](out, parts, count, elements, how, factor);
}
