/* How long a matrix product takes: the rule of cuBLAS and of cuDNN's convolutions, recurrent layers and attention. */
#pragma once
#include "core.h"

/* The type that the device computes in where one is asked for: without units for TF32, bf16, fp16 or fp8 the
   operands are taken as fp32. */
static inline sim_rate product_rate(const sim_device *d, sim_rate asked) {
    return d->flops_per_s[asked] > 0 ? asked : SIM_FP32;
}

/* The word for a kernel's name, of what was asked for and what holds. TF32 without its units is plain fp32; narrower
   operands keep their type in the name. */
static inline const char *product_type(sim_rate asked, sim_rate held) {
    static const char *const words[] = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"};
    static const char *const emulated[] = {"fp64-as-fp32", "fp32", "fp32", "fp16-as-fp32", "bf16-as-fp32",
                                           "fp8-as-fp32", "int8-as-fp32"};
    return (held == asked ? words : emulated)[asked];
}

static inline double product_rounded(double n, double step) {
    double whole = (double)(int64_t)(n / step);
    return (whole * step < n ? whole + 1 : whole) * step;
}

static inline double product_flops_in_tiles(double edge, int multiprocessors, double m, double n, double k,
                                            double batches) {
    const double least_slice = 256;
    double tile_m = m < edge ? product_rounded(m, 16) : edge, tile_n = n < edge ? product_rounded(n, 16) : edge;
    double tiles = product_rounded(m, tile_m) / tile_m * (product_rounded(n, tile_n) / tile_n) * batches;
    double slices = (double)(int64_t)(multiprocessors / tiles), most = product_rounded(k, least_slice) / least_slice;
    slices = slices > most ? most : slices;
    slices = slices < 1 ? 1 : slices;
    double waves = product_rounded(tiles * slices, multiprocessors) / multiprocessors;
    return 2 * waves * multiprocessors * tile_m * tile_n * k / slices;
}

/* Operations of the whole device that a product of m x n x k takes, its idle multiprocessors counted as busy.
   The result is cut into tiles of 128 x 128 (a shorter side is padded to a multiple of 16), a multiprocessor works on
   one tile at a time, so that the last wave of tiles may leave most of them idle. Where there are fewer tiles than
   multiprocessors, k is cut too, into slices of at least 256. Tiles of 64 x 64 fill a device sooner, but reach 3/4 of
   the rate, as each operand is read twice as often; the better of the two is taken. Large products come near 2mnk. */
static inline double product_flops(int multiprocessors, double m, double n, double k, double batches) {
    double large = product_flops_in_tiles(128, multiprocessors, m, n, k, batches);
    double small = product_flops_in_tiles(64, multiprocessors, m, n, k, batches) / 0.75;
    return large < small ? large : small;
}

/* The same as a time at the full clock, for work that consists of many products. */
static inline double product_ns(const sim_device *d, double m, double n, double k, sim_rate held, double bytes) {
    double ns = product_flops(d->multiprocessors, m, n, k, 1) / d->flops_per_s[held] * 1e9;
    double moved_ns = bytes / d->bytes_per_s * 1e9;
    return ns > moved_ns ? ns : moved_ns;
}
