/* What the ranks of a communicator share: a file in the folder of the state, mapped by all.

   A file of zeros is a communicator that nobody joined, so whoever comes first makes it. It loses its name once all
   have joined, and goes with the last that maps it, killed or not. Ranks meet by counting their meetings; what a rank
   writes for one meeting goes to one of two places, so it may write for the next while others still read. */
#define _GNU_SOURCE
#include "nccl_parts.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STALE_S = 60 };                    /* older files are left over if no rank of theirs lives */

static char last_error[1024];
const char *nccl_last_error(void) { return last_error; }

nccl_result nccl_fail(nccl_comm *comm, nccl_result result, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    vsnprintf(last_error, sizeof last_error, format, rest);
    va_end(rest);
    sim_say("nccl: %s", last_error);
    if (comm && result != NCCL_INVALID_USAGE && result != NCCL_INVALID_ARGUMENT) comm->error = result;
    return result;
}

/* ---- places in the segment ---- */

static size_t segment_bytes(int ranks) {
    return sizeof(nccl_segment) + (size_t)ranks * 2 * HALF_BYTES + (size_t)ranks * (size_t)ranks * sizeof(nccl_channel);
}

uint8_t *nccl_half(nccl_comm *comm, int rank, uint64_t meeting) {
    return comm->segment->boxes + ((size_t)rank * 2 + (meeting & 1)) * HALF_BYTES;
}

nccl_channel *nccl_channel_of(nccl_comm *comm, int from, int to) {
    nccl_channel *channels = (nccl_channel *)(comm->segment->boxes + (size_t)comm->ranks * 2 * HALF_BYTES);
    return &channels[from * comm->ranks + to];
}

nccl_word *nccl_word_of(nccl_comm *comm, int rank) {
    uint64_t meeting = comm->segment->rank[comm->rank].meetings;
    return &comm->segment->rank[rank].words[meeting & 1];
}

/* ---- waiting ---- */

uint32_t nccl_bell(nccl_comm *comm) { return __atomic_load_n(&comm->segment->bell, __ATOMIC_ACQUIRE); }

void nccl_ring(nccl_comm *comm) {
    __atomic_add_fetch(&comm->segment->bell, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &comm->segment->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static bool is_alive(const nccl_rank *r) {
    return sim_alive(r->slot) && sim_state()->process[r->slot].pid == r->pid;
}

static double longest_s(void) { /* torch's own time limit doesn't end a wait: it learns of a call once it returns */
    const char *set = getenv("SIMGPU_NCCL_TIMEOUT");
    return set && *set ? atof(set) : 600;
}

nccl_result nccl_doze(nccl_comm *comm, uint32_t bell, uint64_t awaited, int64_t since) {
    const struct timespec moment = {.tv_nsec = 20000000};
    syscall(SYS_futex, &comm->segment->bell, FUTEX_WAIT, bell, &moment, NULL, 0);
    if (__atomic_load_n(&comm->aborted, __ATOMIC_ACQUIRE))
        return nccl_fail(comm, NCCL_SYSTEM_ERROR, "rank %d: the communicator was aborted", comm->rank);
    if (nccl_bell(comm) != bell) return NCCL_OK; /* something happened: look first */
    for (int i = 0; i < comm->ranks; i++) {
        const nccl_rank *r = &comm->segment->rank[i];
        if (!(awaited >> i & 1) || !__atomic_load_n(&r->pid, __ATOMIC_ACQUIRE)) continue;
        if (r->left)
            return nccl_fail(comm, NCCL_REMOTE_ERROR, "rank %d: rank %d has left the communicator", comm->rank, i);
        if (!is_alive(r))
            return nccl_fail(comm, NCCL_SYSTEM_ERROR, "rank %d: process %d, rank %d, has died", comm->rank, r->pid, i);
    }
    if ((double)(sim_now() - since) > 1e9 * longest_s())
        return nccl_fail(comm, NCCL_SYSTEM_ERROR, "rank %d: rank %d did not come within %g s (SIMGPU_NCCL_TIMEOUT)",
                         comm->rank, __builtin_ctzll(awaited), longest_s());
    return NCCL_OK;
}

nccl_result nccl_meet(nccl_comm *comm, const nccl_word *word) {
    nccl_rank *own = &comm->segment->rank[comm->rank];
    uint64_t meeting = own->meetings + 1;
    own->words[meeting & 1] = *word;
    __atomic_store_n(&own->meetings, meeting, __ATOMIC_RELEASE);
    nccl_ring(comm);
    for (int64_t since = sim_now();;) {
        uint32_t bell = nccl_bell(comm);
        uint64_t awaited = 0;
        for (int i = 0; i < comm->ranks; i++)
            if (__atomic_load_n(&comm->segment->rank[i].meetings, __ATOMIC_ACQUIRE) < meeting) awaited |= 1ull << i;
        if (!awaited) return NCCL_OK;
        nccl_result result = nccl_doze(comm, bell, awaited, since);
        if (result) return result;
    }
}

/* ---- joining and leaving ---- */

static bool is_left_over(const char *path) {
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    nccl_segment head = {0};
    bool old = fd >= 0 && fstat(fd, &about) == 0 && time(NULL) - about.st_mtime > STALE_S;
    bool whole = old && pread(fd, &head, sizeof head, 0) == sizeof head;
    if (fd >= 0) close(fd);
    for (int i = 0; whole && i < NCCL_RANKS; i++)
        if (head.rank[i].pid && is_alive(&head.rank[i])) return false;
    return old;
}

static void sweep(void) { /* what ranks left that were killed while they joined */
    DIR *folder = opendir(sim_folder());
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[1400];
        if (strncmp(entry->d_name, "nccl-", 5)) continue;
        snprintf(path, sizeof path, "%s/%s", sim_folder(), entry->d_name);
        if (is_left_over(path)) unlink(path);
    }
    if (folder) closedir(folder);
}

static nccl_result map_segment(nccl_comm *comm, const char *path) {
    comm->segment_bytes = segment_bytes(comm->ranks);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return nccl_fail(comm, NCCL_SYSTEM_ERROR, "%s can't be opened: %s", path, strerror(errno));
    int refused = posix_fallocate(fd, 0, (off_t)comm->segment_bytes); /* or a full /dev/shm would kill at a write */
    void *at = refused ? MAP_FAILED : mmap(NULL, comm->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return nccl_fail(comm, NCCL_SYSTEM_ERROR, "Error while creating shared memory segment %s (size %zu): %s", path,
                         comm->segment_bytes, strerror(refused ? refused : errno));
    madvise(at, comm->segment_bytes, MADV_DONTFORK);
    comm->segment = at;
    return NCCL_OK;
}

static nccl_result wait_for_ranks(nccl_comm *comm) {
    int64_t since = sim_now();
    for (int i = 0; i < comm->ranks;) {
        uint32_t bell = nccl_bell(comm);
        if (__atomic_load_n(&comm->segment->rank[i].pid, __ATOMIC_ACQUIRE)) {
            i++;
            continue;
        }
        nccl_result result = nccl_doze(comm, bell, ~0ull << i, since);
        if (result) return result;
    }
    return NCCL_OK;
}

static nccl_result refuse_duplicates(nccl_comm *comm) {
    const nccl_rank *r = comm->segment->rank;
    for (int i = 0; i < comm->ranks; i++)
        for (int j = 0; j < i; j++)
            if (r[i].device == r[j].device)
                return nccl_fail(comm, NCCL_INVALID_USAGE,
                                 "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", i, j,
                                 sim_devices[r[i].device].pci_bus << 12);
    return NCCL_OK;
}

nccl_result nccl_join(nccl_comm *comm) {
    char path[1400];
    snprintf(path, sizeof path, "%s/nccl-%s", sim_folder(), comm->name);
    int slot = sim_slot();
    sweep();
    nccl_result result = map_segment(comm, path);
    if (result) return result;
    nccl_rank *own = &comm->segment->rank[comm->rank];
    if (own->pid) {
        int pid = own->pid;
        munmap(comm->segment, comm->segment_bytes);
        comm->segment = NULL;
        return nccl_fail(comm, NCCL_INVALID_USAGE, "rank %d has already joined, as process %d", comm->rank, pid);
    }
    own->slot = slot, own->device = sim_device_of(comm->device)->index;
    __atomic_store_n(&own->pid, getpid(), __ATOMIC_RELEASE);
    nccl_ring(comm);
    result = wait_for_ranks(comm);
    if (!result) result = nccl_meet(comm, &(nccl_word){0});
    unlink(path); /* all who are to come are there, or nobody will */
    if (!result) result = refuse_duplicates(comm);
    if (result) nccl_leave(comm);
    else if (comm->ranks > sim_ranks) sim_ranks = comm->ranks;
    return result;
}

void nccl_leave(nccl_comm *comm) {
    if (!comm->segment) return;
    comm->segment->rank[comm->rank].left = 1;
    nccl_ring(comm);
    munmap(comm->segment, comm->segment_bytes);
    comm->segment = NULL;
}
