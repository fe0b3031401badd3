/* This process's memory on the devices and its pinned memory: host memory that is committed when it is touched. */
#define _GNU_SOURCE
#include "core.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct { char *at; size_t bytes; int ordinal; bool pinned, owned; } region;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static region *regions; /* sorted by address: copies ask of each of their ends where it lies */
static int region_count, region_room;

static int place_of(const void *at) { /* the last region that begins at or before it, -1 without one */
    int low = 0, high = region_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (regions[middle].at <= (const char *)at) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}

static void add(region r) {
    pthread_mutex_lock(&lock);
    if (region_count == region_room) regions = realloc(regions, sizeof(region) * (size_t)(region_room = 2 * region_room + 64));
    int i = place_of(r.at) + 1;
    memmove(&regions[i + 1], &regions[i], sizeof(region) * (size_t)(region_count++ - i));
    regions[i] = r;
    pthread_mutex_unlock(&lock);
}

static bool drop(void *at, bool pinned, region *dropped) {
    pthread_mutex_lock(&lock);
    int i = place_of(at);
    bool found = i >= 0 && regions[i].at == at && regions[i].pinned == pinned;
    if (found) {
        *dropped = regions[i];
        memmove(&regions[i], &regions[i + 1], sizeof(region) * (size_t)(--region_count - i));
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void *sim_map(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return NULL;
    madvise(at, bytes, MADV_DONTFORK); /* a child of fork has no device memory */
    return at;
}

static size_t in_pages(size_t bytes) { return (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE; }

void *sim_malloc(size_t bytes) {
    bytes = in_pages(bytes);
    if (!sim_context() || !sim_take(sim_here()->index, (int64_t)bytes)) return NULL;
    void *at = sim_map(bytes);
    if (at) add((region){at, bytes, sim_current, false, true});
    else sim_give(sim_here()->index, (int64_t)bytes);
    return at;
}

bool sim_free(void *at) {
    region r;
    if (!drop(at, false, &r)) return false;
    munmap(r.at, r.bytes);
    sim_give(sim_device_of(r.ordinal)->index, (int64_t)r.bytes);
    return true;
}

void sim_claim(void *at, size_t bytes, int ordinal) { add((region){at, bytes, ordinal, false, false}); }

void sim_disclaim(void *at) {
    region r;
    drop(at, false, &r);
}

sim_where sim_find(const void *at, void **base, size_t *bytes, int *ordinal) {
    sim_where where = SIM_NOWHERE;
    pthread_mutex_lock(&lock);
    int i = place_of(at);
    if (i >= 0 && (const char *)at < regions[i].at + regions[i].bytes) {
        where = regions[i].pinned ? SIM_PINNED : SIM_ON_DEVICE;
        if (base) *base = regions[i].at;
        if (bytes) *bytes = regions[i].bytes;
        if (ordinal) *ordinal = regions[i].ordinal;
    }
    pthread_mutex_unlock(&lock);
    return where;
}

bool sim_pin(void *at, size_t bytes, bool owned) {
    if (!sim_take_pinned((int64_t)bytes)) return false;
    add((region){at, bytes, sim_current, true, owned});
    return true;
}

bool sim_unpin(void *at) {
    region r;
    if (!drop(at, true, &r)) return false;
    sim_take_pinned(-(int64_t)r.bytes);
    if (r.owned) munmap(r.at, r.bytes);
    return true;
}

void sim_set(void *at, int byte, size_t bytes) {
    uintptr_t from = ((uintptr_t)at + 4095) & ~(uintptr_t)4095, to = ((uintptr_t)at + bytes) & ~(uintptr_t)4095;
    if (byte == 0 && to > from && madvise((void *)from, to - from, MADV_DONTNEED) == 0) {
        memset(at, 0, from - (uintptr_t)at);
        memset((void *)to, 0, (uintptr_t)at + bytes - to);
    } else
        memset(at, byte, bytes);
}

void sim_store(void *to, const void *from, size_t bytes) {
    enum { PAGE = 4096 };
    for (size_t i = 0; i < bytes; i += PAGE) {
        size_t n = bytes - i < PAGE ? bytes - i : PAGE;
        if (memcmp((char *)to + i, (const char *)from + i, n)) memcpy((char *)to + i, (const char *)from + i, n);
    }
}
