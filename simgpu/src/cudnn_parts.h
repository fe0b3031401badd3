/* What the files of the simulated cuDNN share. */
#pragma once
#include "abi/cudnn.h"
#include "products.h"

typedef struct { sim_stream *stream; int index; } dnn_handle; /* place in sim_devices */

typedef struct { int type, n, dims[DNN_MOST_DIMS], strides[DNN_MOST_DIMS]; } dnn_tensor; /* filters are tensors too */
typedef struct { float probability; } dnn_dropout;

double dnn_element_bytes(int type);
double dnn_elements(const dnn_tensor *t);
static inline double dnn_bytes(const dnn_tensor *t) { return dnn_elements(t) * dnn_element_bytes(t->type); }
sim_rate dnn_rate(int type);              /* what data of this type is computed in where the device can */
sim_rate dnn_held_rate(const sim_device *d, int type, bool tensor_cores); /* what it really is computed in */
bool dnn_has_tensor_cores(const sim_device *d);
dnn_status dnn_stream_status(const sim_stream *stream); /* whether its device is still there */

/* A convolution: x and w give y, or y and w give x, or x and y give w (cudnn_conv.c). */
typedef enum { DNN_FORWARD, DNN_BACKWARD_DATA, DNN_BACKWARD_FILTER } dnn_way;
typedef struct { dnn_way way; dnn_tensor x, w, y; } dnn_conv;
typedef struct { bool tensor_cores, winograd; } dnn_engine;
bool dnn_conv_has_winograd(const sim_device *d, const dnn_conv *c, bool tensor_cores);
int64_t dnn_conv_workspace_bytes(const dnn_conv *c, dnn_engine engine);
void dnn_conv_run(sim_stream *stream, const dnn_conv *c, dnn_engine engine);
double dnn_conv_ns(const sim_device *d, const dnn_conv *c, dnn_engine engine);
