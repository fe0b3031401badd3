/* What the simulated libraries share: the described devices, their memory, their time lines, their faults. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_DEVICES = 16, SIM_PROCESSES = 128, SIM_BUCKETS = 1024, SIM_QUEUE = 4096, SIM_PAGE = 2097152 };
enum { SIM_MIG_SLICES = 7 }; /* compute slices that a GPU is cut into */
enum { SIM_BUCKET_NS = 50000000, SIM_GAPS = 8 }; /* busy time is kept in buckets of 50 ms, half of them ahead of now */
typedef enum { SIM_COMPUTE, SIM_H2D, SIM_D2H, SIM_ENGINES } sim_engine;
typedef enum { SIM_FP64, SIM_FP32, SIM_TF32, SIM_FP16, SIM_BF16, SIM_FP8, SIM_INT8, SIM_RATES } sim_rate;

/* One device as its file describes it (devices.c). All in the driver's order, which is that of the PCI bus; a MIG
   instance is a device of its own that follows its parent. */
typedef struct {
    char id[32], name[96], uuid[64];      /* uuid as NVML writes it: GPU-... or MIG-... */
    uint8_t uuid_bytes[16];               /* the same, as cudaDeviceProp holds it */
    int index, parent;                    /* place in sim_devices; of a MIG instance its GPU's, otherwise -1 */
    int mig_slices, mig_index;            /* compute slices of an instance and its place in the GPU; 0 for a GPU */
    bool mig_enabled;                     /* of a GPU that is cut into instances: CUDA can't use it as a whole */
    int major, minor, multiprocessors;
    int pci_bus, pcie_generation, pcie_lanes, numa_node;
    int64_t driver_bytes, memory_bytes;   /* NVML's total; what CUDA says and gives (ECC and firmware take the rest) */
    int64_t context_bytes, blas_bytes, module_bytes; /* what a context, a cuBLAS handle, a loaded module takes */
    double flops_per_s[SIM_RATES];        /* reached, not the datasheet's: already times the achievable fraction */
    double bytes_per_s, pinned_bytes_per_s, pageable_bytes_per_s;
    double kernel_ns, launch_ns;          /* a kernel's least time; what the host spends on a launch beside torch */
    int queue_depth;                      /* launches that fit a stream's queue before the host waits */
    int max_sm_clock_mhz, memory_clock_mhz;
    double idle_w, limit_w;
    double soak_s, soaked_clock;          /* after so many busy seconds the power limit lowers the clock to this share */
    bool ecc;
    int l2_bytes, shared_bytes_per_block, shared_bytes_per_sm, threads_per_sm, blocks_per_sm;
    int nvlinks;
    double slower;                        /* what SIMGPU has divided its rates by */
} sim_device;
extern sim_device sim_devices[SIM_DEVICES];
extern int sim_device_count;              /* all of the driver's, MIG instances included */
extern int sim_cuda_order[SIM_DEVICES];   /* CUDA's ordinal to place in sim_devices; read sim_cuda_count() first */
extern bool sim_hides_pids;               /* the driver tells of no processes, as in a container */
bool sim_can_be_cut(const sim_device *device); /* into MIG instances */
int sim_cuda_count(void);                 /* devices that CUDA sees in this process: CUDA_VISIBLE_DEVICES at the first ask */

/* Settings of the whole host, from the environment (README lists them). */
extern int64_t sim_copy_limit_bytes;      /* a longer copy moves no data */
extern int64_t sim_pinned_limit_bytes;    /* pinned host memory that may be had in all, over all processes */
extern bool sim_spins;                    /* a wait burns a core, as CUDA's default does */
extern int sim_ranks;                     /* of the largest communicator of nccl that this process has joined */

extern __thread int sim_current;          /* CUDA's ordinal of this thread's current device */
static inline sim_device *sim_device_of(int ordinal) { return sim_cuda_count(), &sim_devices[sim_cuda_order[ordinal]]; }
static inline int sim_gpu_of(int index) { return sim_devices[index].parent < 0 ? index : sim_devices[index].parent; }
static inline sim_device *sim_here(void) { return sim_device_of(sim_current); }
void sim_init(void);                      /* reads the devices' files, once; every entry to NVML and CUDA comes by here */

/* ---- faults and words ---- */

/* Whether this call is to fail, and with which code: SIMGPU_FAIL=NAME:CODE[@N[+]],... fails the Nth call of NAME
   (all from the first on without @N; with + all from the Nth on). NAME:slow=2 only delays it, by 2 s. */
bool sim_fails(const char *name, int *code);
void sim_say(const char *format, ...);      /* one line to stderr, always */
void sim_note(const char *format, ...);     /* the same, only with SIMGPU_LOG=1 */
int sim_missing(const char *name, int code); /* says once that NAME is not simulated; returns code */
int sim_xid(int index);                     /* not 0: it, or the GPU that it is an instance of, is lost; by place */
static inline bool sim_lost(int index) { return sim_xid(index) != 0; }

/* ---- time ---- */

int64_t sim_now(void);                    /* CLOCK_MONOTONIC in ns */
void sim_wait_until(int64_t ns);

/* ---- state that processes share: memory in use, engines, controls (state.c) ---- */

typedef struct { int64_t epoch, busy_ns; } sim_bucket;
typedef struct {
    int32_t pid, is_outside;              /* is_outside: another container's, whose pid means nothing here */
    int32_t context[SIM_DEVICES];
    int64_t used_bytes[SIM_DEVICES], pinned_bytes;
    int64_t moved_bytes[SIM_DEVICES][SIM_ENGINES]; /* copied so far over PCIe: H2D, D2H */
    sim_bucket busy[SIM_DEVICES][SIM_BUCKETS];
} sim_process;
typedef struct {                          /* what a test changes while processes run: `python -m simgpu set` */
    double clock_share;                   /* 1 unless clocks are held down; 0 means 1 */
    double throttle_mask;                 /* NVML's reasons, beside those that the model gives */
    double xid;                           /* not 0: the device is lost */
    double ecc_errors, outside_bytes;     /* held by somebody whom NVML does not show as a process */
} sim_control;
typedef struct { int64_t begin, end; } sim_gap;
typedef struct { int64_t free_at; sim_gap gaps[SIM_GAPS]; } sim_line; /* an engine's time line: idle spans before its end */
typedef struct { double share; int64_t at; } sim_heat; /* how far towards heat soak at a moment, 0 to 1 */
typedef struct {
    int64_t magic;
    pthread_mutex_t lock;                 /* of the time lines; survives the death of who holds it */
    sim_line line[SIM_DEVICES][SIM_ENGINES];
    sim_heat heat[SIM_DEVICES];
    sim_control control[SIM_DEVICES];
    sim_process process[SIM_PROCESSES];
} sim_shared;

sim_shared *sim_state(void);
const char *sim_folder(void);             /* the folder of the state: nccl's segments lie there too */
bool sim_alive(int slot);                 /* whether the slot's process still runs */
int sim_slot(void);                       /* this process's slot, taken at its first use of a device */
int64_t sim_used_bytes(int index);        /* over all processes; index: place in sim_devices */
bool sim_take(int index, int64_t bytes);  /* count bytes of device memory, false beyond the capacity */
void sim_give(int index, int64_t bytes);
bool sim_context(void);                   /* the current device's context, made at its first use; false: no room */
bool sim_has_context(int ordinal);
double sim_busy_share(int index, int64_t window_ns);
bool sim_take_pinned(int64_t bytes);       /* count pinned host memory, false beyond the limit; or give it back: less than 0 */
void sim_warm(int index, int64_t begin, int64_t end); /* by work; within the lock of the time lines */
double sim_clock_share(int index, int64_t ns); /* of the full clock at a moment, by heat soak and control */
int sim_control_set(int index, const char *key, double value); /* 0, or -1: no such device or key */
int sim_throttle_mask(int index);         /* NVML's bits: 1 idle, 4 software power cap, ... */

/* ---- memory of this process (memory.c) ---- */

void *sim_map(size_t bytes);              /* zero-filled, committed when touched */
void *sim_malloc(size_t bytes);           /* device memory on the current device; NULL: no room */
bool sim_free(void *at);
typedef enum { SIM_NOWHERE, SIM_ON_DEVICE, SIM_PINNED } sim_where;
void sim_claim(void *at, size_t bytes, int ordinal); /* a mapped range belongs to a device (expandable segments) */
void sim_disclaim(void *at);
sim_where sim_find(const void *at, void **base, size_t *bytes, int *ordinal);
bool sim_pin(void *at, size_t bytes, bool owned); /* false: no pinned memory left */
bool sim_unpin(void *at);
void sim_set(void *at, int byte, size_t bytes); /* zeroing a whole page gives it back to the host */
void sim_store(void *to, const void *from, size_t bytes); /* leaves pages that are equal: unwritten ones stay so */

/* ---- streams and work (work.c) ---- */

enum { SIM_CAPTURED = 16 };               /* streams of one capture whose joining is watched */
typedef struct sim_graph { double ns; int nodes, streams; bool invalid; int device; } sim_graph;
typedef struct sim_stream {
    int device, priority;                 /* CUDA's ordinal */
    unsigned flags, launched, number;
    int64_t tail, ends[SIM_QUEUE];        /* when all of it is done; the ends of the last launches */
    const char *last;                     /* the last kernel's name */
    unsigned grid[3], block[3];           /* of the kernel that is being launched; 0: of a library, which tells none */
    sim_graph *capture;
    uint64_t capture_id;
    int place;                            /* among the streams of its capture, of which the first began it */
    unsigned seen[SIM_CAPTURED];          /* how much of each one's captured work lies before what follows here */
    struct sim_stream *next;
} sim_stream;

sim_stream *sim_stream_of(void *handle);  /* NULL, legacy and per-thread handles are the current device's default */
sim_stream *sim_stream_new(unsigned flags, int priority);
void sim_stream_free(sim_stream *stream);
void sim_all_streams(int ordinal, void (*see)(sim_stream *, void *), void *with);
int64_t sim_tail(const sim_stream *stream); /* when what follows on it may begin: the default one waits for others */
int64_t sim_device_tail(int ordinal);

/* Queue work of this length at the full clock; return when it ends. Blocks as a full launch queue does. */
int64_t sim_work(sim_stream *stream, sim_engine engine, double ns, const char *name, size_t bytes);
/* A kernel that moves these bytes and does these operations: the larger of the two times, at least kernel_ns. */
int64_t sim_kernel(sim_stream *stream, double flops, sim_rate rate, double bytes, const char *name);
/* Names live for ever: equal text gives the same pointer. */
const char *sim_name(const char *format, ...);

/* Called for each piece of work while a profiler listens (cupti.c). Every piece also goes to SIMGPU_TRACE. */
extern void (*sim_on_work)(sim_stream *stream, sim_engine engine, const char *name, int64_t begin, int64_t end, size_t bytes);
const char *sim_function_name(const void *function); /* of a kernel, by the address that a launch names it with */
void sim_name_function(const void *function, const char *name);
