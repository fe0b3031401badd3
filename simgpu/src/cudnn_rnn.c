/* cuDNN's recurrent layers: how their weights lie in one block, what they keep, and how long they take. */
#include "cudnn_parts.h"
#include <stdlib.h>
#include <string.h>

typedef dnn_status S;
typedef struct {
    int mode, biases, directions, type, layers;
    bool skips_input, tensor_cores;
    int64_t in, hidden, out; /* features: of the input, of a cell, of what it passes on (fewer with a projection) */
    float dropout;
} rnn;
typedef struct {
    int type, steps, batch, features;
    int64_t all_steps;
} sequences; /* all_steps: of all sequences together */

S cudnnCreateRNNDescriptor(rnn **r) { return *r = calloc(1, sizeof **r), DNN_OK; }
S cudnnDestroyRNNDescriptor(rnn *r) { return free(r), DNN_OK; }
S cudnnSetRNNDescriptor_v8(rnn *r, int algo, int mode, int bias_mode, int direction_mode, int input_mode, int type,
                           int precision, int math, int32_t in, int32_t hidden, int32_t out, int32_t layers,
                           const dnn_dropout *dropout, uint32_t flags) {
    static const int biases[] = {
        [RNN_NO_BIAS] = 0, [RNN_ONE_INPUT_BIAS] = 1, [RNN_TWO_BIASES] = 2, [RNN_ONE_STATE_BIAS] = 1};
    if (mode < RNN_RELU || mode > RNN_GRU || bias_mode < 0 || bias_mode > RNN_ONE_STATE_BIAS) return DNN_BAD_PARAM;
    *r = (rnn){.mode = mode,
               .biases = biases[bias_mode],
               .directions = direction_mode == RNN_BOTH_DIRECTIONS ? 2 : 1,
               .type = type,
               .layers = layers,
               .skips_input = input_mode == RNN_SKIPS_INPUT,
               .tensor_cores = math != DNN_FMA_MATH,
               .in = in,
               .hidden = hidden,
               .out = out,
               .dropout = dropout ? dropout->probability : 0};
    return DNN_OK;
}
S cudnnBuildRNNDynamic(dnn_handle *h, rnn *r, int batch) { return DNN_OK; }

S cudnnCreateRNNDataDescriptor(sequences **s) { return *s = calloc(1, sizeof **s), DNN_OK; }
S cudnnDestroyRNNDataDescriptor(sequences *s) { return free(s), DNN_OK; }
S cudnnSetRNNDataDescriptor(sequences *s, int type, int layout, int steps, int batch, int features, const int *lengths,
                            void *padding) {
    *s = (sequences){type, steps, batch, features, 0};
    for (int i = 0; i < batch; i++) s->all_steps += lengths[i];
    return DNN_OK;
}

/* ---- the weights ----

   All matrices lie before all biases; both by layer, then direction, then what they are applied to (the input first,
   then the state), then gate. A projection follows its layer's matrices. torch checks that gates follow one another. */

static int gates_of(const rnn *r) { return r->mode == RNN_LSTM ? 4 : r->mode == RNN_GRU ? 3 : 1; }
static int64_t in_features(const rnn *r, int layer) { return layer ? r->out * r->directions : r->in; }
static bool has_projection(const rnn *r) { return r->out != r->hidden; }

static int64_t input_elements(const rnn *r, int layer) { /* a gate's matrix for the input */
    return layer == 0 && r->skips_input ? 0 : r->hidden * in_features(r, layer);
}
static int64_t matrix_elements(const rnn *r, int layer) { /* of one direction */
    int64_t projected = has_projection(r) ? r->out * r->hidden : 0;
    return gates_of(r) * (input_elements(r, layer) + r->hidden * r->out) + projected;
}
static int64_t all_matrix_elements(const rnn *r) {
    int64_t sum = 0;
    for (int layer = 0; layer < r->layers; layer++) sum += r->directions * matrix_elements(r, layer);
    return sum;
}
static int64_t bias_elements(const rnn *r) {
    return (int64_t)r->biases * gates_of(r) * r->hidden;
} /* of a layer's direction */

S cudnnGetRNNWeightSpaceSize(dnn_handle *h, const rnn *r, size_t *bytes) {
    int64_t elements = all_matrix_elements(r) + (int64_t)r->layers * r->directions * bias_elements(r);
    *bytes = (size_t)elements * (size_t)dnn_element_bytes(r->type);
    return DNN_OK;
}

static void describe(dnn_tensor *t, int type, int64_t rows, int64_t cols) {
    *t = (dnn_tensor){
        .type = type, .n = 3, .dims = {1, (int)rows, (int)cols}, .strides = {(int)(rows * cols), (int)cols, 1}};
}

S cudnnGetRNNWeightParams(dnn_handle *h, const rnn *r, int32_t pseudo_layer, size_t bytes, const void *weights,
                          int32_t id, dnn_tensor *matrix, void **at_matrix, dnn_tensor *bias, void **at_bias) {
    int gates = gates_of(r), layer = pseudo_layer / r->directions;
    if (pseudo_layer < 0 || layer >= r->layers || id < 0 || id > 2 * gates) return DNN_BAD_PARAM;
    size_t element = (size_t)dnn_element_bytes(r->type);
    int64_t before = 0, input = input_elements(r, layer);
    for (int i = 0; i < pseudo_layer; i++) before += matrix_elements(r, i / r->directions);
    bool is_input = id < gates, is_projection = id == 2 * gates;
    int64_t at = is_input ? id * input : gates * input + (id - gates) * r->hidden * r->out;
    if (matrix && at_matrix) {
        bool exists = is_projection ? has_projection(r) : !is_input || input;
        *at_matrix = exists ? (char *)weights + element * (size_t)(before + at) : NULL;
        if (!exists) *matrix = (dnn_tensor){.type = r->type};
        else if (is_projection) describe(matrix, r->type, r->out, r->hidden);
        else describe(matrix, r->type, r->hidden, is_input ? in_features(r, layer) : r->out);
    }
    if (bias && at_bias) {
        int place = r->biases == 2 ? id : id % gates;
        bool exists = !is_projection && r->biases;
        int64_t at = all_matrix_elements(r) + pseudo_layer * bias_elements(r) + place * r->hidden;
        *at_bias = exists ? (char *)weights + element * (size_t)at : NULL;
        if (exists) describe(bias, r->type, r->hidden, 1);
        else *bias = (dnn_tensor){.type = r->type};
    }
    return DNN_OK;
}

/* ---- what they keep ----

   The reserve lives from forward to backward. For each layer, direction, sequence and step the backward pass needs
   - LSTM: four gates and the state of the cell, 5 hidden;
   - GRU: three gates, the state's part of the new one before the reset gate, the state before and after it, 6 hidden;
   - plain: its state, 1 hidden;
   and between two layers what one passed to the next; the last layer's output is the caller's. The workspace holds the
   matrices once more, transposed, and for each layer, direction and sequence two steps of the gates and what one step
   makes of the state: 2 x 4 + 3 hidden for an LSTM, 2 x 3 + 2 for a GRU.

   Measured with cuDNN 6, 4 layers of 320 from 123 features, 25,000 steps in all, in fp32 (pytorch/pytorch issue 2895):
   reserve 736,000,000 B for an LSTM and 864,000,000 B for a GRU, which this gives; workspace 17,730,560 and 13,169,920
   B, which this gives for a batch of 100. Later versions may differ; a dropout's masks are not known and left out. */

static int64_t kept_hidden(const rnn *r) { return r->mode == RNN_LSTM ? 5 : r->mode == RNN_GRU ? 6 : 1; }
static int64_t working_hidden(const rnn *r) { return 2 * gates_of(r) + (r->mode == RNN_LSTM ? 3 : 2); }

S cudnnGetRNNTempSpaceSizes(dnn_handle *h, const rnn *r, int mode, const sequences *x, size_t *workspace,
                            size_t *reserve) {
    size_t element = (size_t)dnn_element_bytes(r->type);
    int64_t steps = (int64_t)x->steps * x->batch;
    int64_t kept = steps * r->directions * (r->layers * kept_hidden(r) * r->hidden + (r->layers - 1) * r->out);
    int64_t working =
        all_matrix_elements(r) + (int64_t)x->batch * r->layers * r->directions * working_hidden(r) * r->hidden;
    if (workspace) *workspace = element * (size_t)working;
    if (reserve) *reserve = mode == RNN_TRAINING ? element * (size_t)kept : 0;
    return DNN_OK;
}

/* ---- how long they take ----

   A layer's inputs are multiplied for all steps at once; the states step by step, each product waiting for the one
   before, so that a step takes at least as long as a kernel. */

static const char *mode_of(const rnn *r) {
    static const char *const words[] = {"relu", "tanh", "lstm", "gru"};
    return words[r->mode];
}

typedef enum { FPROP, DGRAD, WGRAD } pass;

static void run_layer(sim_stream *stream, const rnn *r, const sequences *x, int layer, pass way) {
    static const char *const ways[] = {"fprop", "dgrad", "wgrad"};
    sim_device *d = sim_device_of(stream->device);
    sim_rate held = dnn_held_rate(d, r->type, r->tensor_cores);
    const char *type = product_type(dnn_rate(r->type), held);
    double element = dnn_element_bytes(r->type), all = (double)x->all_steps, batch = x->steps ? all / x->steps : 0;
    double wide = (double)(gates_of(r) * r->hidden), in = (double)in_features(r, layer), out = (double)r->out;
    double m = way == DGRAD ? in : wide, n = way == WGRAD ? in : all, k = way == FPROP ? in : way == DGRAD ? wide : all;
    if (input_elements(r, layer))
        sim_kernel(stream, product_flops(d->multiprocessors, m, n, k, 1), held,
                   element * (m * n + m * k + n * k),
                   sim_name("rnn %s %s %s input %.0fx%.0fx%.0f", mode_of(r), ways[way], type, m, n, k));
    if (way == WGRAD) {
        sim_kernel(stream, product_flops(d->multiprocessors, wide, out, all, 1), held,
                   element * (wide * out + wide * all + out * all),
                   sim_name("rnn %s wgrad %s state %.0fx%.0fx%.0f", mode_of(r), type, wide, out, all));
        return;
    }
    m = way == DGRAD ? out : wide, k = way == DGRAD ? wide : out;
    double projection = has_projection(r) ? product_ns(d, out, batch, (double)r->hidden, held, 0) : 0;
    double step_ns = product_ns(d, m, batch, k, held, element * (m * k + (m + k) * batch)) + projection;
    double ns = x->steps * (step_ns > d->kernel_ns ? step_ns : d->kernel_ns);
    const char *name =
        sim_name("rnn %s %s %s steps %d of %.0fx%.0fx%.0f", mode_of(r), ways[way], type, x->steps, m, batch, k);
    stream->last = name;
    sim_work(stream, SIM_COMPUTE, ns, name, (size_t)(element * all * (m + k)));
}

static S run(const char *name, dnn_handle *h, const rnn *r, const sequences *x, pass way) {
    int code;
    if (sim_fails(name, &code)) return (S)code;
    S status = dnn_stream_status(h->stream);
    if (status) return status;
    for (int i = 0; i < r->layers * r->directions; i++) {
        int layer = way == FPROP ? i / r->directions : r->layers - 1 - i / r->directions;
        run_layer(h->stream, r, x, layer, way);
    }
    return DNN_OK;
}
S cudnnRNNForward(dnn_handle *h, const rnn *r, int mode, const int32_t *lengths, const sequences *x, const void *at_x,
                  const sequences *y, void *at_y, const dnn_tensor *state, const void *hx, void *hy,
                  const dnn_tensor *cell, const void *cx, void *cy, size_t weight_bytes, const void *weights,
                  size_t work_bytes, void *work, size_t reserve_bytes, void *reserve) {
    return run("cudnnRNNForward", h, r, x, FPROP);
}
S cudnnRNNBackwardData_v8(dnn_handle *h, const rnn *r, const int32_t *lengths, const sequences *y, const void *at_y,
                          const void *dy, const sequences *x, void *dx, const dnn_tensor *state, const void *hx,
                          const void *dhy, void *dhx, const dnn_tensor *cell, const void *cx, const void *dcy,
                          void *dcx, size_t weight_bytes, const void *weights, size_t work_bytes, void *work,
                          size_t reserve_bytes, void *reserve) {
    return run("cudnnRNNBackwardData_v8", h, r, x, DGRAD);
}
S cudnnRNNBackwardWeights_v8(dnn_handle *h, const rnn *r, int adds, const int32_t *lengths, const sequences *x,
                             const void *at_x, const dnn_tensor *state, const void *hx, const sequences *y,
                             const void *at_y, size_t weight_bytes, void *weights, size_t work_bytes, void *work,
                             size_t reserve_bytes, void *reserve) {
    return run("cudnnRNNBackwardWeights_v8", h, r, x, WGRAD);
}
