/* What all processes of one simulated host share, in a mapped file: memory in use, time lines, controls.

   A process has a slot there, held by a lock on one byte of the file, which the kernel drops with the process, killed
   or not: so the memory of the dead is free at once, as a driver frees it. */
#define _GNU_SOURCE
#include "core.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x53494d33 };
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static sim_shared *shared;
static int state_fd = -1, my_slot = -1;

const char *sim_folder(void) {
    static char path[1024];
    const char *named = getenv("SIMGPU_STATE");
    if (!*path) {
        if (named && *named) snprintf(path, sizeof path, "%s", named);
        else snprintf(path, sizeof path, "/dev/shm/psm_simgpu-%d", (int)getuid());
        mkdir(path, 0700);
    }
    return path;
}

static void forked(void) { my_slot = -1; } /* a child is a process of its own: it has no context and no memory */

static bool lock_byte(int64_t at, int command, short type) {
    struct flock f = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    while (fcntl(state_fd, command, &f) != 0)
        if (errno != EINTR) return false;
    return true;
}

static void enter(void) {
    pthread_mutex_lock(&lock);
    sim_state();
    lock_byte(0, F_SETLKW, F_WRLCK);
}

static void leave(void) {
    lock_byte(0, F_SETLK, F_UNLCK);
    pthread_mutex_unlock(&lock);
}

static void begin(void) { /* the first process makes what others find */
    lock_byte(0, F_SETLKW, F_WRLCK);
    if (shared->magic != MAGIC) {
        pthread_mutexattr_t kind;
        pthread_mutexattr_init(&kind);
        pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&shared->lock, &kind);
        shared->magic = MAGIC;
    }
    lock_byte(0, F_SETLK, F_UNLCK);
}

sim_shared *sim_state(void) {
    if (__atomic_load_n(&shared, __ATOMIC_ACQUIRE)) return shared;
    sim_init();
    pthread_mutex_lock(&lock);
    if (!shared) {
        char path[1100];
        snprintf(path, sizeof path, "%s/state-%zu", sim_folder(), sizeof(sim_shared)); /* another layout has another */
        state_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        void *at = state_fd < 0 || ftruncate(state_fd, sizeof(sim_shared)) != 0
                       ? MAP_FAILED
                       : mmap(NULL, sizeof(sim_shared), PROT_READ | PROT_WRITE, MAP_SHARED, state_fd, 0);
        if (at == MAP_FAILED) {
            sim_say("the state file %s can't be used: %s; set SIMGPU_STATE to a folder that can be written", path, strerror(errno));
            abort();
        }
        pthread_atfork(NULL, NULL, forked);
        shared = at;
        begin();
    }
    pthread_mutex_unlock(&lock);
    return shared;
}

/* ---- processes ---- */

bool sim_alive(int slot) {
    sim_process *p = &sim_state()->process[slot];
    if (!p->pid) return false;
    if (slot == my_slot) return true;
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1 + slot, .l_len = 1};
    return fcntl(state_fd, F_GETLK, &f) == 0 && f.l_type != F_UNLCK;
}

static void take_slot(void) { /* within enter and leave */
    bool alone = true;
    int empty = -1;
    for (int i = SIM_PROCESSES; i-- > 0;) {
        if (sim_alive(i)) alone = false;
        else empty = i;
    }
    if (alone) memset(shared->line, 0, sizeof shared->line); /* work of the dead is not waited for */
    if (empty >= 0) memset(&shared->process[empty], 0, sizeof(sim_process)); /* before its lock says that it lives */
    if (empty < 0 || !lock_byte(1 + empty, F_SETLK, F_WRLCK)) {
        sim_say("more than %d processes use the simulated devices", (int)SIM_PROCESSES);
        abort();
    }
    const char *outside = getenv("SIMGPU_OUTSIDE");
    shared->process[empty].is_outside = outside && *outside == '1';
    shared->process[empty].pid = getpid();
    my_slot = empty;
}

int sim_slot(void) {
    if (my_slot >= 0) return my_slot;
    enter();
    if (my_slot < 0) take_slot();
    leave();
    return my_slot;
}

/* ---- device memory, counted ---- */

int64_t sim_used_bytes(int index) {
    int64_t sum = (int64_t)sim_state()->control[index].outside_bytes;
    for (int i = 0; i < SIM_PROCESSES; i++)
        if (sim_alive(i)) sum += shared->process[i].used_bytes[index];
    return sum;
}

static bool count_in(int slot, int index, int64_t bytes) { /* within enter and leave */
    bool fits = sim_used_bytes(index) + bytes <= sim_devices[index].memory_bytes;
    if (fits) shared->process[slot].used_bytes[index] += bytes;
    return fits;
}

bool sim_take(int index, int64_t bytes) {
    int slot = sim_slot();
    enter();
    bool fits = count_in(slot, index, bytes);
    leave();
    return fits;
}

void sim_give(int index, int64_t bytes) {
    int slot = sim_slot();
    enter();
    shared->process[slot].used_bytes[index] -= bytes;
    leave();
}

bool sim_take_pinned(int64_t bytes) {
    int slot = sim_slot();
    int64_t pinned = bytes;
    enter();
    for (int i = 0; i < SIM_PROCESSES; i++)
        if (sim_alive(i)) pinned += shared->process[i].pinned_bytes;
    bool fits = bytes < 0 || pinned <= sim_pinned_limit_bytes;
    if (fits) shared->process[slot].pinned_bytes += bytes;
    leave();
    return fits;
}

bool sim_context(void) {
    int slot = sim_slot(), index = sim_here()->index;
    if (shared->process[slot].context[index]) return true;
    enter();
    bool fits = shared->process[slot].context[index] || count_in(slot, index, sim_here()->context_bytes);
    if (fits) shared->process[slot].context[index] = 1;
    leave();
    return fits;
}

bool sim_has_context(int ordinal) {
    return my_slot >= 0 && shared->process[my_slot].context[sim_device_of(ordinal)->index];
}

/* ---- how busy, how hot ---- */

double sim_busy_share(int index, int64_t window_ns) {
    int64_t last = sim_now() / SIM_BUCKET_NS - 1, count = window_ns / SIM_BUCKET_NS, busy = 0;
    for (int i = 0; i < SIM_PROCESSES; i++) {
        if (!sim_alive(i)) continue;
        for (int64_t e = last - count + 1; e <= last; e++) {
            sim_bucket *b = &shared->process[i].busy[index][e % SIM_BUCKETS];
            if (b->epoch == e) busy += b->busy_ns;
        }
    }
    double share = (double)busy / (double)(count * SIM_BUCKET_NS);
    return share > 1 ? 1 : share;
}

/* Heat follows load as a first-order lag whose time constant is a third of soak_s: after soak_s busy seconds 95%.
   It is kept as it will be at the end of the work that is queued. Heat and clock are the GPU's, not its instances'. */
static double heat_at(int index, int64_t ns) {
    const sim_heat *h = &sim_state()->heat[sim_gpu_of(index)];
    double soak_s = sim_devices[index].soak_s, passed_s = (double)(ns - h->at) / 1e9;
    if (soak_s <= 0) return 0;
    return passed_s >= 0 ? h->share * exp(-3 * passed_s / soak_s)
                         : fmax(0, 1 - (1 - h->share) * exp(-3 * passed_s / soak_s)); /* it works until then */
}

void sim_warm(int index, int64_t begin, int64_t end) {
    sim_heat *h = &shared->heat[sim_gpu_of(index)];
    double soak_s = sim_devices[index].soak_s;
    if (soak_s <= 0) return;
    double before = begin > h->at ? heat_at(index, begin) : h->share; /* work in a gap of the line adds to its end */
    h->share = 1 - (1 - before) * exp(-3e-9 * (double)(end - begin) / soak_s);
    if (end > h->at) h->at = end;
}

double sim_clock_share(int index, int64_t ns) {
    double held = sim_state()->control[sim_gpu_of(index)].clock_share, soaked = sim_devices[index].soaked_clock;
    return (held > 0 ? held : 1) * (1 - (1 - soaked) * heat_at(index, ns));
}

int sim_throttle_mask(int index) {
    enum { IDLE = 1, POWER_CAP = 4 };
    int mask = (int)sim_state()->control[index].throttle_mask;
    if (sim_busy_share(index, 500000000) == 0) mask |= IDLE;
    else if (sim_devices[index].soaked_clock < 1 && heat_at(index, sim_now()) > 0.5) mask |= POWER_CAP;
    return mask;
}

int sim_control_set(int index, const char *key, double value) {
    static const struct { const char *key; size_t at; } keys[] = {
        {"clock_share", offsetof(sim_control, clock_share)}, {"throttle_mask", offsetof(sim_control, throttle_mask)},
        {"xid", offsetof(sim_control, xid)}, {"ecc_errors", offsetof(sim_control, ecc_errors)},
        {"outside_bytes", offsetof(sim_control, outside_bytes)}};
    sim_state();
    for (size_t i = 0; i < sizeof keys / sizeof *keys && index >= 0 && index < sim_device_count; i++)
        if (!strcmp(keys[i].key, key)) {
            *(double *)((char *)&shared->control[index] + keys[i].at) = value;
            return 0;
        }
    return -1;
}
