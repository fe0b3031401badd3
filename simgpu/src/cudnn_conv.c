/* Convolutions: what they cost, and the older interface to them, which names algorithms by number.

   A convolution is an implicit matrix product and takes the time of one (products.h). There are two engines, as an
   example of the many that cuDNN has:
   - the implicit product itself, without a workspace. The heuristics choose it; it reaches PLAIN_SHARE of the rate.
   - Winograd's, for filters larger than 1 x 1, which reaches the whole rate and needs a workspace as large as input
     and output together. A search (cudnn.benchmark) measures both and finds it. It exists where it saves at least
     LEAST_GAIN_NS, so that the noise of measuring doesn't decide, and peaks of memory are the same in each run.
   Both come with tensor cores and without; without them they reach SCALAR_SHARE of that, so that TF32 wins a search
   even where the device computes fp32 as fast.

   Tensor cores want channels last: in other layouts half precision is copied to it and back, a kernel each, as
   cuDNN's nchwToNhwcKernel and nhwcToNchwKernel do. */
#include "cudnn_parts.h"
#include <stdio.h>
#include <stdlib.h>

static const double PLAIN_SHARE = 0.85, SCALAR_SHARE = 0.95, LEAST_GAIN_NS = 50e3;

typedef dnn_status S;
typedef struct { double m, n, k, groups; } product;

/* groups follow from the shapes: each filter sees but its own group's channels */
static double groups_of(const dnn_conv *c) { return c->w.dims[1] > 0 ? (double)c->x.dims[1] / c->w.dims[1] : 1; }

static double per_channel(const dnn_tensor *t) { return t->dims[1] > 0 ? dnn_elements(t) / t->dims[1] : 0; }

static product product_of(const dnn_conv *c) {
    double groups = groups_of(c), from = c->w.dims[1], to = c->w.dims[0] / groups;
    double window = dnn_elements(&c->w) / ((double)c->w.dims[0] * c->w.dims[1]), pixels = per_channel(&c->y);
    double all = pixels * to * from * window; /* multiplications and additions of a group */
    switch (c->way) {
    case DNN_FORWARD: return (product){pixels, to, from * window, groups};
    case DNN_BACKWARD_DATA: return (product){per_channel(&c->x), from, all / (per_channel(&c->x) * from), groups};
    default: return (product){to, from * window, pixels, groups};
    }
}

static bool channels_last(const dnn_conv *c) { return c->x.strides[1] == 1; }
static bool is_half(const dnn_conv *c) { return c->x.type == DNN_HALF || c->x.type == DNN_BFLOAT16; }

int64_t dnn_conv_workspace_bytes(const dnn_conv *c, dnn_engine engine) {
    return engine.winograd ? (int64_t)(dnn_bytes(&c->x) + dnn_bytes(&c->y)) : 0;
}

static double flops_of(const sim_device *d, const dnn_conv *c, dnn_engine engine) {
    product p = product_of(c);
    double share = (engine.winograd ? 1 : PLAIN_SHARE) * (engine.tensor_cores ? 1 : SCALAR_SHARE);
    return product_flops(d->multiprocessors, p.m, p.n, p.k, p.groups) / share;
}
static double bytes_of(const dnn_conv *c) { return dnn_bytes(&c->x) + dnn_bytes(&c->w) + dnn_bytes(&c->y); }

static bool is_copied(const sim_device *d, const dnn_conv *c, dnn_engine engine) {
    return engine.tensor_cores && is_half(c) && !channels_last(c) && dnn_has_tensor_cores(d);
}

static const char *sizes(const dnn_tensor *t, char *to) { /* 56x56 of a tensor, 3x3 of a filter */
    char *at = to;
    *at = 0;
    for (int i = 2; i < t->n; i++) at += sprintf(at, i > 2 ? "x%d" : "%d", t->dims[i]);
    return to;
}

void dnn_conv_run(sim_stream *stream, const dnn_conv *c, dnn_engine engine) {
    static const char *const ways[] = {"fprop", "dgrad", "wgrad"};
    sim_device *d = sim_device_of(stream->device);
    sim_rate held = dnn_held_rate(d, c->x.type, engine.tensor_cores);
    const char *type = product_type(dnn_rate(c->x.type), held);
    const dnn_tensor *in = c->way == DNN_BACKWARD_DATA ? &c->y : &c->x, *out = c->way == DNN_FORWARD ? &c->y : &c->x;
    bool copied = is_copied(d, c, engine);
    if (copied) sim_kernel(stream, 0, held, 2 * dnn_bytes(in), sim_name("nchw to nhwc %s", type));
    if (copied && c->way == DNN_BACKWARD_FILTER)
        sim_kernel(stream, 0, held, 2 * dnn_bytes(&c->y), sim_name("nchw to nhwc %s", type));
    char picture[96], window[96];
    const char *name = sim_name("conv %s %s %s n%d c%d %s k%d %s%s", ways[c->way], type,
                                channels_last(c) ? "nhwc" : "nchw", c->x.dims[0], c->x.dims[1], sizes(&c->x, picture),
                                c->w.dims[0], sizes(&c->w, window), engine.winograd ? " winograd" : "");
    sim_kernel(stream, flops_of(d, c, engine), held, bytes_of(c), name);
    if (copied && c->way != DNN_BACKWARD_FILTER)
        sim_kernel(stream, 0, held, 2 * dnn_bytes(out), sim_name("nhwc to nchw %s", type));
}

double dnn_conv_ns(const sim_device *d, const dnn_conv *c, dnn_engine engine) {
    double flops_per_s = d->flops_per_s[dnn_held_rate(d, c->x.type, engine.tensor_cores)];
    double ns = flops_of(d, c, engine) / flops_per_s * 1e9, moved_ns = bytes_of(c) / d->bytes_per_s * 1e9;
    double copied_ns = is_copied(d, c, engine) ? 2 * (dnn_bytes(&c->x) + dnn_bytes(&c->y)) / d->bytes_per_s * 1e9 : 0;
    return (ns > moved_ns ? ns : moved_ns) + copied_ns;
}

bool dnn_conv_has_winograd(const sim_device *d, const dnn_conv *c, bool tensor_cores) {
    if (dnn_elements(&c->w) <= (double)c->w.dims[0] * c->w.dims[1]) return false;
    dnn_engine plain = {tensor_cores, false}, winograd = {tensor_cores, true};
    return dnn_conv_ns(d, c, plain) - dnn_conv_ns(d, c, winograd) >= LEAST_GAIN_NS;
}

/* ---- the older interface ---- */

typedef struct { int type, math, groups; } descriptor;

S cudnnCreateConvolutionDescriptor(descriptor **c) { return *c = calloc(1, sizeof **c), DNN_OK; }
S cudnnDestroyConvolutionDescriptor(descriptor *c) { return free(c), DNN_OK; }
S cudnnSetConvolutionNdDescriptor(descriptor *c, int n, const int *padding, const int *stride, const int *dilation,
                                  int mode, int type) {
    return c->type = type, DNN_OK;
}
S cudnnSetConvolutionGroupCount(descriptor *c, int groups) { return c->groups = groups, DNN_OK; }
S cudnnSetConvolutionMathType(descriptor *c, int math) { return c->math = math, DNN_OK; }

static int winograd_of(dnn_way way) {
    return way == DNN_FORWARD ? DNN_ALGO_WINOGRAD_FORWARD : DNN_ALGO_WINOGRAD_BACKWARD;
}

static S run(const char *name, dnn_handle *h, const descriptor *c, dnn_conv conv, int algo) {
    int code;
    if (sim_fails(name, &code)) return (S)code;
    S status = dnn_stream_status(h->stream);
    if (status) return status;
    if (algo != DNN_ALGO_IMPLICIT && algo != winograd_of(conv.way)) return (S)sim_missing(name, DNN_NOT_SUPPORTED);
    dnn_conv_run(h->stream, &conv, (dnn_engine){c->math != DNN_FMA_MATH, algo != DNN_ALGO_IMPLICIT});
    return DNN_OK;
}
S cudnnConvolutionForward(dnn_handle *h, const void *alpha, const dnn_tensor *x, const void *at_x, const dnn_tensor *w,
                          const void *at_w, const descriptor *c, int algo, void *workspace, size_t bytes,
                          const void *beta, const dnn_tensor *y, void *at_y) {
    return run("cudnnConvolutionForward", h, c, (dnn_conv){DNN_FORWARD, *x, *w, *y}, algo);
}
S cudnnConvolutionBiasActivationForward(dnn_handle *h, const void *alpha, const dnn_tensor *x, const void *at_x,
                                        const dnn_tensor *w, const void *at_w, const descriptor *c, int algo,
                                        void *workspace, size_t bytes, const void *alpha2, const dnn_tensor *z,
                                        const void *at_z, const dnn_tensor *bias, const void *at_bias,
                                        const void *activation, const dnn_tensor *y, void *at_y) {
    return run("cudnnConvolutionBiasActivationForward", h, c, (dnn_conv){DNN_FORWARD, *x, *w, *y}, algo);
}
S cudnnConvolutionBackwardData(dnn_handle *h, const void *alpha, const dnn_tensor *w, const void *at_w,
                               const dnn_tensor *y, const void *at_y, const descriptor *c, int algo, void *workspace,
                               size_t bytes, const void *beta, const dnn_tensor *x, void *at_x) {
    return run("cudnnConvolutionBackwardData", h, c, (dnn_conv){DNN_BACKWARD_DATA, *x, *w, *y}, algo);
}
S cudnnConvolutionBackwardFilter(dnn_handle *h, const void *alpha, const dnn_tensor *x, const void *at_x,
                                 const dnn_tensor *y, const void *at_y, const descriptor *c, int algo, void *workspace,
                                 size_t bytes, const void *beta, const dnn_tensor *w, void *at_w) {
    return run("cudnnConvolutionBackwardFilter", h, c, (dnn_conv){DNN_BACKWARD_FILTER, *x, *w, *y}, algo);
}

/* The algorithms best first: by heuristics the plain one, by measuring the faster. */
static S list(dnn_handle *h, const descriptor *c, dnn_conv conv, bool measures, int wanted, int *found,
              dnn_algo_found *to) {
    bool tensor_cores = c->math != DNN_FMA_MATH;
    int count = dnn_conv_has_winograd(sim_device_of(h->stream->device), &conv, tensor_cores) ? 2 : 1;
    *found = 0;
    for (int i = 0; i < count && i < wanted; i++) {
        dnn_engine engine = {tensor_cores, (i == 0) == (measures && count == 2)};
        to[(*found)++] = (dnn_algo_found){
            .algo = engine.winograd ? winograd_of(conv.way) : DNN_ALGO_IMPLICIT, .determinism = DNN_DETERMINISTIC,
            .time_ms = (float)(dnn_conv_ns(sim_device_of(h->stream->device), &conv, engine) / 1e6),
            .workspace_bytes = (size_t)dnn_conv_workspace_bytes(&conv, engine),
            .math = conv.x.type == DNN_HALF && tensor_cores ? DNN_TENSOR_OP_MATH : c->math};
        if (measures) dnn_conv_run(h->stream, &conv, engine);
    }
    return DNN_OK;
}
static S workspace_of(dnn_handle *h, const descriptor *c, dnn_conv conv, int algo, size_t *bytes) {
    *bytes = 0;
    if (algo == DNN_ALGO_IMPLICIT) return DNN_OK;
    sim_device *d = sim_device_of(h->stream->device);
    bool has_winograd = dnn_conv_has_winograd(d, &conv, c->math != DNN_FMA_MATH);
    if (algo != winograd_of(conv.way) || !has_winograd) return DNN_NOT_SUPPORTED;
    *bytes = (size_t)dnn_conv_workspace_bytes(&conv, (dnn_engine){.winograd = true});
    return DNN_OK;
}

/* The three directions differ in the order of their operands: x, w, y; w, y, x; x, y, w. */
#define SEARCHES(Way, way, first, second, third) \
    S cudnnGetConvolution##Way##Algorithm_v7(dnn_handle *h, const dnn_tensor *first, const dnn_tensor *second, \
                                             const descriptor *c, const dnn_tensor *third, int wanted, int *found, \
                                             dnn_algo_found *to) { \
        return list(h, c, (dnn_conv){way, *x, *w, *y}, false, wanted, found, to); \
    } \
    S cudnnFindConvolution##Way##AlgorithmEx(dnn_handle *h, const dnn_tensor *first, const void *at1, \
                                             const dnn_tensor *second, const void *at2, const descriptor *c, \
                                             const dnn_tensor *third, void *at3, int wanted, int *found, \
                                             dnn_algo_found *to, void *workspace, size_t bytes) { \
        return list(h, c, (dnn_conv){way, *x, *w, *y}, true, wanted, found, to); \
    } \
    S cudnnGetConvolution##Way##WorkspaceSize(dnn_handle *h, const dnn_tensor *first, const dnn_tensor *second, \
                                              const descriptor *c, const dnn_tensor *third, int algo, size_t *bytes) { \
        return workspace_of(h, c, (dnn_conv){way, *x, *w, *y}, algo, bytes); \
    }
SEARCHES(Forward, DNN_FORWARD, x, w, y)
SEARCHES(BackwardData, DNN_BACKWARD_DATA, w, y, x)
SEARCHES(BackwardFilter, DNN_BACKWARD_FILTER, x, y, w)
