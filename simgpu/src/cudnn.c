/* libcudnn.so.9: handles, tensors, dropout, batch norm and grid sampling. Nothing is computed; the last two take the
   time of their bytes. CTC loss and pooling are not simulated: what the build generates says so once. */
#include "cudnn_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef dnn_status S;

/* What a handle takes of the device: it loads the kernels that every user needs. No figure of NVIDIA's. */
enum { HANDLE_BYTES = 8 << 20 };

/* torch refuses a library that is older than the one it was built with: 9.10.2 for CUDA 12.8, 9.26.0 for CUDA 13.2. */
#if CUDA_MAJOR == 12
enum { MAJOR = 9, MINOR = 10, PATCH = 2 };
#else
enum { MAJOR = 9, MINOR = 26, PATCH = 0 };
#endif

/* ---- the library ---- */

size_t cudnnGetVersion(void) { return MAJOR * 10000 + MINOR * 100 + PATCH; }
size_t cudnnGetCudartVersion(void) { return CUDA_MAJOR * 1000 + CUDA_MINOR * 10; }
S cudnnGetProperty(int property, int *value) {
    *value = property == PROPERTY_MAJOR ? MAJOR : property == PROPERTY_MINOR ? MINOR : PATCH;
    return DNN_OK;
}
const char *cudnnGetErrorString(int status) {
    static const char *const words[] = {"CUDNN_STATUS_SUCCESS",        "CUDNN_STATUS_NOT_INITIALIZED",
                                        "CUDNN_STATUS_BAD_PARAM",      "CUDNN_STATUS_NOT_SUPPORTED",
                                        "CUDNN_STATUS_INTERNAL_ERROR", "CUDNN_STATUS_EXECUTION_FAILED"};
    return status >= 0 && status < 6000 ? words[status / 1000] : "CUDNN_STATUS_UNKNOWN";
}
void cudnnGetLastErrorString(char *to, size_t bytes) { if (bytes) *to = 0; }

S cudnnCreate(dnn_handle **h) {
    int code;
    sim_init();
    if (sim_fails("cudnnCreate", &code)) return (S)code;
    if (sim_cuda_count() == 0 || !sim_context()) return DNN_NOT_INITIALIZED;
    sim_device *d = sim_here();
    if (sim_lost(d->index) || !sim_take(d->index, HANDLE_BYTES)) return DNN_NOT_INITIALIZED;
    *h = malloc(sizeof **h);
    **h = (dnn_handle){sim_stream_of(NULL), d->index};
    return DNN_OK;
}
S cudnnDestroy(dnn_handle *h) {
    if (!h) return DNN_NOT_INITIALIZED;
    sim_give(h->index, HANDLE_BYTES);
    free(h);
    return DNN_OK;
}
S cudnnSetStream(dnn_handle *h, void *stream) { return h->stream = sim_stream_of(stream), DNN_OK; }
S cudnnGetStream(dnn_handle *h, void **stream) { return *stream = h->stream, DNN_OK; }

dnn_status dnn_stream_status(const sim_stream *stream) {
    return sim_lost(sim_device_of(stream->device)->index) ? DNN_EXECUTION_FAILED : DNN_OK;
}

/* ---- tensors ---- */

double dnn_element_bytes(int type) {
    switch (type) {
    case DNN_FLOAT: case DNN_INT32: return 4;
    case DNN_HALF: case DNN_BFLOAT16: return 2;
    case DNN_DOUBLE: case DNN_INT64: return 8;
    default: return 1;
    }
}
double dnn_elements(const dnn_tensor *t) {
    double n = 1;
    for (int i = 0; i < t->n; i++) n *= t->dims[i];
    return n;
}
sim_rate dnn_rate(int type) {
    switch (type) {
    case DNN_FLOAT: return SIM_TF32;
    case DNN_DOUBLE: return SIM_FP64;
    case DNN_HALF: return SIM_FP16;
    case DNN_BFLOAT16: return SIM_BF16;
    case DNN_INT8: case DNN_UINT8: return SIM_INT8;
    default: return SIM_FP8;
    }
}
bool dnn_has_tensor_cores(const sim_device *d) { return d->major >= 7; }
sim_rate dnn_held_rate(const sim_device *d, int type, bool tensor_cores) {
    bool refused = !tensor_cores && dnn_has_tensor_cores(d) && type != DNN_DOUBLE;
    return refused ? SIM_FP32 : product_rate(d, dnn_rate(type));
}

S cudnnCreateTensorDescriptor(dnn_tensor **t) { return *t = calloc(1, sizeof **t), DNN_OK; }
S cudnnDestroyTensorDescriptor(dnn_tensor *t) { return free(t), DNN_OK; }
S cudnnCreateFilterDescriptor(dnn_tensor **t) { return *t = calloc(1, sizeof **t), DNN_OK; }
S cudnnDestroyFilterDescriptor(dnn_tensor *t) { return free(t), DNN_OK; }

static S set(dnn_tensor *t, int type, int n, const int *dims, const int *strides) {
    if (n < 1 || n > DNN_MOST_DIMS) return DNN_BAD_PARAM;
    t->type = type, t->n = n;
    memcpy(t->dims, dims, sizeof *dims * (size_t)n);
    if (strides) memcpy(t->strides, strides, sizeof *strides * (size_t)n);
    return DNN_OK;
}
S cudnnSetTensorNdDescriptor(dnn_tensor *t, int type, int n, const int *dims, const int *strides) {
    return set(t, type, n, dims, strides);
}
S cudnnSetFilterNdDescriptor(dnn_tensor *t, int type, int format, int n, const int *dims) {
    t->strides[0] = format; /* a filter has no strides, but one of two orders */
    return set(t, type, n, dims, NULL);
}
S cudnnGetTensorNdDescriptor(const dnn_tensor *t, int wanted, int *type, int *n, int *dims, int *strides) {
    *type = t->type, *n = t->n;
    for (int i = 0; i < t->n && i < wanted; i++) dims[i] = t->dims[i], strides[i] = t->strides[i];
    return DNN_OK;
}
S cudnnGetFilterNdDescriptor(const dnn_tensor *t, int wanted, int *type, int *format, int *n, int *dims) {
    *type = t->type, *n = t->n, *format = t->strides[0];
    for (int i = 0; i < t->n && i < wanted; i++) dims[i] = t->dims[i];
    return DNN_OK;
}

/* ---- activations and dropout, as parts of other calls ---- */

S cudnnCreateActivationDescriptor(void **a) { return *a = calloc(1, 16), DNN_OK; }
S cudnnDestroyActivationDescriptor(void *a) { return free(a), DNN_OK; }
S cudnnSetActivationDescriptor(void *a, int mode, int nan, double limit) { return DNN_OK; }

S cudnnCreateDropoutDescriptor(dnn_dropout **d) { return *d = calloc(1, sizeof **d), DNN_OK; }
S cudnnDestroyDropoutDescriptor(dnn_dropout *d) { return free(d), DNN_OK; }
S cudnnDropoutGetStatesSize(dnn_handle *h, size_t *bytes) { /* 8 bytes for a thread: 1,310,720 on 80 multiprocessors */
    return *bytes = 8 * 2048 * (size_t)sim_device_of(h->stream->device)->multiprocessors, DNN_OK;
}
S cudnnSetDropoutDescriptor(dnn_dropout *d, dnn_handle *h, float probability, void *states, size_t bytes,
                            unsigned long long seed) {
    d->probability = probability;
    if (bytes) sim_kernel(h->stream, 0, SIM_FP32, (double)bytes, "dropout states");
    return DNN_OK;
}
S cudnnRestoreDropoutDescriptor(dnn_dropout *d, dnn_handle *h, float probability, void *states, size_t bytes,
                                unsigned long long seed) {
    return d->probability = probability, DNN_OK;
}

/* ---- batch norm: passes over its input. Neither a workspace nor a reserve: torch asks for the norm alone, without the
   activation whose signs cuDNN would keep in the reserve. ---- */

static S norm(dnn_handle *h, const dnn_tensor *x, double passes, const char *way) {
    S status = dnn_stream_status(h->stream);
    if (status) return status;
    static const char *const types[] = {"fp32", "fp64", "fp16"};
    const char *type = x->type == DNN_BFLOAT16 ? "bf16" : x->type >= 0 && x->type < 3 ? types[x->type] : "int8";
    const char *name = sim_name("batch norm %s %s %s", way, type, x->n > 1 && x->strides[1] == 1 ? "nhwc" : "nchw");
    sim_kernel(h->stream, 0, SIM_FP32, passes * dnn_bytes(x), name);
    return DNN_OK;
}
S cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(dnn_handle *h, int mode, int ops, const dnn_tensor *x,
                                                           const dnn_tensor *z, const dnn_tensor *y,
                                                           const dnn_tensor *scale, const void *activation,
                                                           size_t *bytes) {
    return *bytes = 0, DNN_OK;
}
S cudnnGetBatchNormalizationBackwardExWorkspaceSize(dnn_handle *h, int mode, int ops, const dnn_tensor *x,
                                                    const dnn_tensor *y, const dnn_tensor *dy, const dnn_tensor *dz,
                                                    const dnn_tensor *dx, const dnn_tensor *scale,
                                                    const void *activation, size_t *bytes) {
    return *bytes = 0, DNN_OK;
}
S cudnnGetBatchNormalizationTrainingExReserveSpaceSize(dnn_handle *h, int mode, int ops, const void *activation,
                                                       const dnn_tensor *x, size_t *bytes) {
    return *bytes = 0, DNN_OK;
}
S cudnnBatchNormalizationForwardInference(dnn_handle *h, int mode, const void *alpha, const void *beta,
                                          const dnn_tensor *x, const void *at_x, const dnn_tensor *y, void *at_y,
                                          const dnn_tensor *scale, const void *at_scale, const void *bias,
                                          const void *mean, const void *variance, double epsilon) {
    return norm(h, x, 2, "inference");
}
S cudnnBatchNormalizationForwardTrainingEx(dnn_handle *h, int mode, int ops, const void *alpha, const void *beta,
                                           const dnn_tensor *x, const void *at_x, const dnn_tensor *z, const void *at_z,
                                           const dnn_tensor *y, void *at_y, const dnn_tensor *scale,
                                           const void *at_scale, const void *bias, double factor, void *mean,
                                           void *variance, double epsilon, void *saved_mean, void *saved_variance,
                                           const void *activation, void *workspace, size_t workspace_bytes,
                                           void *reserve, size_t reserve_bytes) {
    return norm(h, x, 3, "fprop"); /* reads it twice */
}
S cudnnBatchNormalizationBackwardEx(dnn_handle *h, int mode, int ops, const void *alpha, const void *beta,
                                    const void *alpha2, const void *beta2, const dnn_tensor *x, const void *at_x,
                                    const dnn_tensor *y, const void *at_y, const dnn_tensor *dy, const void *at_dy,
                                    const dnn_tensor *dz, void *at_dz, const dnn_tensor *dx, void *at_dx,
                                    const dnn_tensor *scale, const void *at_scale, const void *bias, void *dscale,
                                    void *dbias, double epsilon, const void *saved_mean, const void *saved_variance,
                                    const void *activation, void *workspace, size_t workspace_bytes, void *reserve,
                                    size_t reserve_bytes) {
    return norm(h, x, 5, "dgrad"); /* reads it and its gradient twice */
}

/* ---- sampling an image at a grid's points: each point reads four pixels, most of them from the cache ---- */

S cudnnCreateSpatialTransformerDescriptor(dnn_tensor **t) { return *t = calloc(1, sizeof **t), DNN_OK; }
S cudnnDestroySpatialTransformerDescriptor(dnn_tensor *t) { return free(t), DNN_OK; }
S cudnnSetSpatialTransformerNdDescriptor(dnn_tensor *t, int sampler, int type, int n, const int *dims) {
    return set(t, type, n, dims, NULL);
}

static double grid_bytes(const dnn_tensor *t) { /* two coordinates for each pixel of the result */
    return t->dims[1] ? 2 * dnn_bytes(t) / t->dims[1] : 0;
}
static S sample(dnn_handle *h, double bytes, const char *name) {
    S status = dnn_stream_status(h->stream);
    if (!status) sim_kernel(h->stream, 0, SIM_FP32, bytes, name);
    return status;
}
S cudnnSpatialTfGridGeneratorForward(dnn_handle *h, const dnn_tensor *t, const void *theta, void *grid) {
    return sample(h, grid_bytes(t), "affine grid fprop");
}
S cudnnSpatialTfGridGeneratorBackward(dnn_handle *h, const dnn_tensor *t, const void *dgrid, void *dtheta) {
    return sample(h, grid_bytes(t), "affine grid dgrad");
}
S cudnnSpatialTfSamplerForward(dnn_handle *h, const dnn_tensor *t, const void *alpha, const dnn_tensor *x,
                               const void *at_x, const void *grid, const void *beta, const dnn_tensor *y, void *at_y) {
    return sample(h, dnn_bytes(x) + dnn_bytes(y) + grid_bytes(y), "grid sample fprop");
}
S cudnnSpatialTfSamplerBackward(dnn_handle *h, const dnn_tensor *t, const void *alpha, const dnn_tensor *x,
                                const void *at_x, const void *beta, const dnn_tensor *dx, void *at_dx,
                                const void *alpha_grid, const dnn_tensor *dy, const void *at_dy, const void *grid,
                                const void *beta_grid, void *dgrid) {
    return sample(h, 2 * (dnn_bytes(x) + grid_bytes(dy)) + dnn_bytes(dy), "grid sample dgrad");
}
