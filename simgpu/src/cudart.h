/* What the parts of the runtime share. */
#pragma once
#include "abi/cuda.h"
#include "core.h"
#include "cost.h"
#include "errors.h"

#pragma GCC visibility push(hidden)

cuda_error sim_fail(cuda_error error); /* remembers it for cudaGetLastError */
#define TRY(ok, error) do { if (!(ok)) return sim_fail(error); } while (0)
#define PASS(call) do { cuda_error passed_ = (call); if (passed_) return sim_fail(passed_); } while (0)
/* Every entry point begins so: a broken context, a lost device and SIMGPU_FAIL answer for it. */
#define ENTER() PASS(sim_refuses(__func__))
/* Of those that need the device: its context is made at its first use, if there is room. */
#define ENTER_CONTEXT() do { ENTER(); PASS(sim_enter_context()); } while (0)

/* An event holds the time that its stream's line had reached, or the capture that it was recorded in. */
typedef struct {
    int64_t at;
    unsigned flags;
    bool recorded;
    uint64_t capture_id;
    unsigned seen[SIM_CAPTURED];
} sim_event;

/* ---- capture (cudart_graph.c) ---- */

cuda_error sim_capture_forbids(void); /* an unsafe call while a capture is under way; it breaks the capture */
cuda_error sim_capture_forbids_wait(sim_stream *stream);  /* a wait for this stream, or a question to it */
cuda_error
sim_capture_forbids_work(sim_stream *stream); /* work on the legacy stream beside a capture that it would join */
cuda_error sim_capture_waits(sim_stream *stream, const sim_event *event, unsigned flags);

/* ---- the few kernels that compute (cudart_kernels.c) ---- */

void sim_compute(const char *name, const sim_launch *launch);
void sim_read_back(const sim_stream *stream, void *value, size_t bytes); /* a number that the host has just read */

#pragma GCC visibility pop
