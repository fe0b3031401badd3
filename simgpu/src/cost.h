/* What a kernel costs, worked out from its name and its launch. */
#pragma once
#include "core.h"

typedef struct { unsigned grid[3], block[3]; void **args; } sim_launch;
typedef struct { double flops, bytes; sim_rate rate; } sim_cost;

/* Of a kernel that torch or a library brings compiled: `name` is mangled and lives for ever. */
sim_cost sim_cost_of(const char *name, const sim_launch *launch);
void sim_run(sim_stream *stream, const char *name, sim_cost cost, const sim_launch *launch); /* sim_kernel with a shape */
double sim_threads(const sim_launch *launch);

/* A reduction holds its configuration a few words in; that the block's shape stands in it tells where. */
typedef struct {
    int element, inputs, outputs, steps[3], input_by[3], output_by[2], width, height, threads, vectorized, vector;
} sim_reduction;
const sim_reduction *sim_reduction_of(const sim_launch *launch); /* NULL: there is none where they have it */

static inline bool sim_launch_is_valid(const sim_launch *l) { /* by the limits that all devices have */
    return sim_threads(l) > 0 && (uint64_t)l->block[0] * l->block[1] * l->block[2] <= 1024 && l->block[2] <= 64 &&
           l->grid[0] <= INT32_MAX && l->grid[1] <= 65535 && l->grid[2] <= 65535;
}
