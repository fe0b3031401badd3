/* How the parts of the simulated NCCL see each other. */
#pragma once
#include "abi/nccl.h"
#include "core.h"

enum { NCCL_RANKS = 64, HALF_BYTES = 262144, CHANNEL_BYTES = 32768, NCCL_MADE_OPS = 64 };

/* ---- what the ranks of a communicator share (nccl_segment.c) ---- */

/* What a rank says at a meeting: which operation it is at, when its stream reaches it, and whether its part is zero. */
typedef struct {
    int kind, type, reduction, root;
    uint64_t bytes;
    int64_t ready;
    bool is_zero;
    int64_t color, key;                   /* of a split */
} nccl_word;
typedef struct {
    int32_t pid, slot, device, left;      /* device: place in sim_devices */
    uint64_t meetings;                    /* that this rank came to */
    nccl_word words[2];                   /* at its latest meeting and the one before */
} nccl_rank;
typedef struct { uint32_t announced, seen; int64_t ready; uint64_t bytes; } nccl_side;
typedef struct {                          /* messages from one rank to one other; bytes pass through a ring */
    nccl_side side[2];                    /* of the sender, of the receiver */
    uint64_t written, read;
    uint8_t data[CHANNEL_BYTES];
} nccl_channel;
typedef struct {
    uint32_t bell;                        /* rung whenever something changes */
    nccl_rank rank[NCCL_RANKS];
    uint8_t boxes[];                      /* each rank's two halves, then the channels */
} nccl_segment;

typedef struct { nccl_type type; bool on_device; const void *scalar; uint8_t value[8]; bool used; } nccl_made_op;
typedef struct nccl_comm {
    char name[64];
    int ranks, rank, device;              /* device: CUDA's ordinal */
    nccl_segment *segment;
    size_t segment_bytes;
    nccl_made_op made[NCCL_MADE_OPS];
    unsigned splits;
    pthread_mutex_t lock;                 /* one thread at a time works for a rank */
    bool aborted;
    nccl_result error;
} nccl_comm;

nccl_result nccl_fail(nccl_comm *comm, nccl_result result, const char *format, ...);
const char *nccl_last_error(void);
nccl_result nccl_join(nccl_comm *comm);   /* returns once all ranks are there */
void nccl_leave(nccl_comm *comm);
nccl_result nccl_meet(nccl_comm *comm, const nccl_word *word); /* returns once all ranks said their word */
nccl_word *nccl_word_of(nccl_comm *comm, int rank);  /* at the latest meeting */
uint8_t *nccl_half(nccl_comm *comm, int rank, uint64_t meeting);
nccl_channel *nccl_channel_of(nccl_comm *comm, int from, int to);
void nccl_ring(nccl_comm *comm);
uint32_t nccl_bell(nccl_comm *comm);
/* Sleep until the bell rings, a moment at most; an error if a rank is gone that is waited for, a bit for each, or if
   they have been waited for too long. */
nccl_result nccl_doze(nccl_comm *comm, uint32_t bell, uint64_t awaited, int64_t since);

/* ---- operations (nccl_work.c) ---- */

typedef enum {
    NCCL_ALL_REDUCE, NCCL_REDUCE, NCCL_BROADCAST, NCCL_ALL_GATHER, NCCL_REDUCE_SCATTER, NCCL_ALL_TO_ALL, NCCL_GATHER,
    NCCL_SCATTER, NCCL_SPLIT, NCCL_SEND, NCCL_RECEIVE
} nccl_kind;
typedef struct {
    nccl_comm *comm;
    nccl_kind kind;
    const void *send;
    void *receive;
    size_t count, done;
    nccl_type type;
    int reduction, root;                  /* root: or the other rank, of a message */
    sim_stream *stream;
} nccl_op;

nccl_result nccl_run(nccl_comm *comm, nccl_op ops[], int count); /* those of one communicator in a group */
double nccl_estimated_ns(const nccl_op *op);

/* ---- arithmetic (nccl_reduce.c) ---- */

size_t nccl_type_bytes(nccl_type type);   /* 0 for an unknown type */
bool nccl_can_reduce(nccl_type type);
/* out = the parts combined, in the ranks' order; factor: what each part is multiplied by first, or NULL. */
void nccl_combine(void *out, const void *const parts[], int count, size_t elements, nccl_type type, nccl_reduction how,
                  const void *factor);
