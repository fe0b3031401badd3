/* Which devices there are: SIMGPU names their files, CUDA_VISIBLE_DEVICES what CUDA sees of them.

   SIMGPU=a10g,t4:memory_bytes=3GiB:slower=16,a100-sxm-40:mig=1g.5gb+2g.10gb gives three GPUs in the driver's order;
   after a colon stand keys of the device's file, or `slower`, which divides the rates before it, or `mig`. */
#define _GNU_SOURCE
#include "core.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sim_device sim_devices[SIM_DEVICES];
int sim_device_count, sim_cuda_order[SIM_DEVICES];
bool sim_hides_pids, sim_spins;
int64_t sim_copy_limit_bytes, sim_pinned_limit_bytes;
int sim_ranks;
__thread int sim_current;

static void refuse(const char *format, const char *a, const char *b) {
    sim_say(format, a, b);
    exit(EXIT_FAILURE);
}

static const char *setting(const char *key, const char *otherwise) {
    const char *value = getenv(key);
    return value && *value ? value : otherwise;
}

static double number(const char *key, const char *value) {
    static const struct { const char *unit; double size; } units[] = {
        {"", 1}, {"KiB", 1024.}, {"MiB", 1048576.}, {"GiB", 1073741824.}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
    char *rest;
    double n = strtod(value, &rest);
    if (rest == value || !isfinite(n)) refuse("%s must be a number, got '%s'", key, value);
    while (*rest == ' ') rest++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(rest, units[i].unit)) return n * units[i].size;
    refuse("%s has an unknown unit: '%s' (KiB, MiB, GiB, K, M, G or T)", key, value);
    return 0;
}

/* ---- a device's file: lines of `key = value  # comment`, keys as the fields of sim_device ---- */

#define FIELD(name, kind) {#name, offsetof(sim_device, name), kind, false}
#define NEEDED(name, kind) {#name, offsetof(sim_device, name), kind, true} /* without it there is no device */
#define RATE(name, rate, needed) {#name, offsetof(sim_device, flops_per_s[rate]), REAL, needed}
enum { TEXT, INT, LONG, REAL, FLAG };
static const struct { const char *key; size_t at; int kind; bool needed; } fields[] = {
    NEEDED(name, TEXT), NEEDED(major, INT), FIELD(minor, INT), NEEDED(multiprocessors, INT),
    NEEDED(pcie_generation, INT), NEEDED(pcie_lanes, INT), FIELD(numa_node, INT), NEEDED(driver_bytes, LONG),
    NEEDED(memory_bytes, LONG), FIELD(context_bytes, LONG), FIELD(blas_bytes, LONG), FIELD(module_bytes, LONG),
    NEEDED(bytes_per_s, REAL), NEEDED(pinned_bytes_per_s, REAL), NEEDED(pageable_bytes_per_s, REAL),
    FIELD(kernel_ns, REAL), FIELD(launch_ns, REAL), NEEDED(queue_depth, INT), NEEDED(max_sm_clock_mhz, INT),
    NEEDED(memory_clock_mhz, INT), FIELD(idle_w, REAL), NEEDED(limit_w, REAL), FIELD(soak_s, REAL),
    NEEDED(soaked_clock, REAL), FIELD(ecc, FLAG), FIELD(l2_bytes, INT), NEEDED(shared_bytes_per_block, INT),
    NEEDED(shared_bytes_per_sm, INT), NEEDED(threads_per_sm, INT), NEEDED(blocks_per_sm, INT), FIELD(nvlinks, INT),
    RATE(fp64_flops_per_s, SIM_FP64, false), RATE(fp32_flops_per_s, SIM_FP32, true),
    RATE(tf32_flops_per_s, SIM_TF32, false), RATE(fp16_flops_per_s, SIM_FP16, false),
    RATE(bf16_flops_per_s, SIM_BF16, false), RATE(fp8_flops_per_s, SIM_FP8, false),
    RATE(int8_flops_per_s, SIM_INT8, false)};
enum { FIELDS = sizeof fields / sizeof *fields };

static int whole(const char *key, const char *value) {
    double n = number(key, value);
    if (fabs(n) > INT_MAX) refuse("%s is too large: '%s'", key, value);
    return (int)n;
}

static bool assign(sim_device *d, const char *key, const char *value) {
    for (int i = 0; i < FIELDS; i++) {
        if (strcmp(fields[i].key, key)) continue;
        char *at = (char *)d + fields[i].at;
        if (fields[i].kind == TEXT) snprintf(at, sizeof d->name, "%s", value);
        else if (fields[i].kind == INT) *(int *)at = whole(key, value);
        else if (fields[i].kind == LONG) *(int64_t *)at = (int64_t)number(key, value);
        else if (fields[i].kind == REAL) *(double *)at = number(key, value);
        else *(bool *)at = number(key, value) != 0;
        return true;
    }
    return false;
}

static double value_of(const sim_device *d, int i) {
    const char *at = (const char *)d + fields[i].at;
    switch (fields[i].kind) {
    case TEXT: return *at != 0;
    case INT: return *(const int *)at;
    case LONG: return (double)*(const int64_t *)at;
    case REAL: return *(const double *)at;
    default: return *(const bool *)at;
    }
}

static void check(const sim_device *d) { /* once all is assigned: a rate of 0 would be divided by */
    for (int i = 0; i < FIELDS; i++) {
        const char *key = fields[i].key;
        if (fields[i].needed && value_of(d, i) <= 0) refuse("the device '%s' needs '%s' above 0", d->id, key);
        if (value_of(d, i) < 0 && strcmp(key, "numa_node")) refuse("the device '%s' has '%s' below 0", d->id, key);
    }
    if (d->soaked_clock > 1) refuse("the device '%s' has a soaked_clock above 1%s", d->id, "");
}

static char *trimmed(char *text) {
    text += strspn(text, " \t\n");
    for (size_t n = strlen(text); n && strchr(" \t\n", text[n - 1]);) text[--n] = 0;
    return text;
}

static FILE *open_file(const char *id) {
    char path[4096];
    const char *named = getenv("SIMGPU_DEVICES");
    if (strchr(id, '/')) return fopen(id, "r");
    if (named) {
        snprintf(path, sizeof path, "%s/%s.conf", named, id);
        return fopen(path, "r");
    }
    Dl_info own;
    dladdr((void *)open_file, &own);
    int folder = (int)(strrchr(own.dli_fname, '/') - own.dli_fname);
    snprintf(path, sizeof path, "%.*s/../devices/%s.conf", folder, own.dli_fname, id);
    return fopen(path, "r");
}

static void read_device(sim_device *d, const char *id) {
    FILE *file = open_file(id);
    if (!file) refuse("SIMGPU names the device '%s', of which there is no file (%s); `python -m simgpu devices` lists them", id, strerror(errno));
    const char *base = strrchr(id, '/') ? strrchr(id, '/') + 1 : id;
    snprintf(d->id, sizeof d->id, "%.*s", (int)strcspn(base, "."), base);
    char line[512];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "#")] = 0;
        char *value = strchr(line, '=');
        if (!value) continue;
        *value++ = 0;
        char *key = trimmed(line);
        if (!assign(d, key, trimmed(value))) refuse("the file of the device '%s' has an unknown key '%s'", id, key);
    }
    fclose(file);
}

/* ---- what SIMGPU says ---- */

static void name_device(sim_device *d) { /* the same bytes from cudaDeviceProp and from NVML */
    uint64_t hash = 14695981039346656037ull;
    for (const char *c = d->id; *c; c++) hash = (hash ^ (uint8_t)*c) * 1099511628211ull;
    for (int i = 0; i < 16; i++) hash = (hash ^ (uint64_t)(d->index + i)) * 1099511628211ull, d->uuid_bytes[i] = (uint8_t)(hash >> 32);
    const uint8_t *b = d->uuid_bytes;
    snprintf(d->uuid, sizeof d->uuid, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             d->parent < 0 ? "GPU" : "MIG", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static sim_device *new_device(void) {
    if (sim_device_count == SIM_DEVICES) refuse("SIMGPU names more than %s devices%s", "16", "");
    sim_device *d = &sim_devices[sim_device_count];
    d->index = sim_device_count++, d->parent = -1, d->soaked_clock = d->slower = 1, d->queue_depth = 1024;
    return d;
}

static void slow_down(sim_device *d, double times) {
    if (times <= 0) refuse("the device '%s' can't be slower by %s", d->id, "0");
    for (int i = 0; i < SIM_RATES; i++) d->flops_per_s[i] /= times;
    d->bytes_per_s /= times, d->pinned_bytes_per_s /= times, d->pageable_bytes_per_s /= times, d->kernel_ns *= times, d->slower *= times;
}

enum { MIG_EIGHTHS = 8 };
bool sim_can_be_cut(const sim_device *d) { /* A100, A30, H100, H200, B200 */
    return (d->major == 8 && d->minor == 0) || d->major == 9 || (d->major == 10 && d->minor == 0);
}

/* As `nvidia-smi mig -lgip` lists them for an A100, an H100 and a B200; smaller dies of a generation in proportion. */
static int multiprocessors_of(const sim_device *gpu, int slices) {
    static const struct { int all, of[SIM_MIG_SLICES + 1]; } tables[] = {
        {108, {0, 14, 28, 42, 56, 70, 84, 98}}, {132, {0, 16, 32, 60, 64, 80, 96, 132}},
        {148, {0, 18, 36, 70, 72, 90, 108, 148}}};
    int generation = gpu->major - 8;
    return tables[generation].of[slices] * gpu->multiprocessors / tables[generation].all / 2 * 2;
}

static void cut(int parent, char *profiles) { /* 1g.5gb+2g.10gb: compute slices of 7, memory slices of 8 */
    sim_device *gpu = &sim_devices[parent];
    if (!sim_can_be_cut(gpu)) refuse("'%s' can't be cut into MIG instances%s", gpu->id, "");
    gpu->mig_enabled = true;
    int instances = 0, slices_left = SIM_MIG_SLICES, eighths_left = MIG_EIGHTHS;
    for (char *rest, *one = strtok_r(profiles, "+", &rest); one; one = strtok_r(NULL, "+", &rest)) {
        int slices, gb;
        if (sscanf(one, "%dg.%dgb", &slices, &gb) != 2 || slices < 1 || gb < 1)
            refuse("a MIG instance is written like 1g.5gb, got '%s'%s", one, "");
        double eighth = (double)gpu->memory_bytes / MIG_EIGHTHS;
        int eighths = (int)fmax(1, gb * 1e9 / eighth + 0.5);
        slices_left -= slices, eighths_left -= eighths;
        if (slices_left < 0 || eighths_left < 0) refuse("'%s' has no room for the MIG instance '%s'", gpu->id, one);
        sim_device *d = new_device();
        int index = d->index;
        *d = *gpu;
        d->index = index, d->parent = parent, d->mig_enabled = false, d->mig_slices = slices, d->mig_index = instances++;
        d->memory_bytes = (int64_t)(eighth * eighths) / SIM_PAGE * SIM_PAGE, d->driver_bytes = d->memory_bytes;
        d->multiprocessors = multiprocessors_of(gpu, slices);
        for (int i = 0; i < SIM_RATES; i++) d->flops_per_s[i] *= (double)d->multiprocessors / gpu->multiprocessors;
        double share = (double)eighths / MIG_EIGHTHS;
        d->bytes_per_s *= share, d->l2_bytes = (int)(d->l2_bytes * share);
        size_t n = strlen(d->name);
        snprintf(d->name + n, sizeof d->name - n, " MIG %s", one);
        name_device(d);
    }
}

static void describe(char *words) {
    char *rest, *id = strtok_r(words, ":", &rest), *mig = NULL;
    if (!id) return;
    sim_device *d = new_device();
    read_device(d, id);
    d->pci_bus = 0x17 + 8 * d->index;
    for (char *one = strtok_r(NULL, ":", &rest); one; one = strtok_r(NULL, ":", &rest)) {
        char *value = strchr(one, '=');
        if (!value) refuse("SIMGPU: after '%s:' stands key=value, got '%s'", id, one);
        *value++ = 0;
        if (!strcmp(one, "mig")) mig = value;
        else if (!strcmp(one, "slower")) slow_down(d, number(one, value));
        else if (!assign(d, one, value)) refuse("SIMGPU: '%s' has no key '%s'", id, one);
        if (!strcmp(one, "memory_bytes")) d->driver_bytes = d->memory_bytes;
    }
    check(d);
    name_device(d);
    if (mig) cut(d->index, mig);
}

static void read_description(void) {
    sim_copy_limit_bytes = (int64_t)number("SIMGPU_COPY_LIMIT", setting("SIMGPU_COPY_LIMIT", "4MiB"));
    sim_pinned_limit_bytes = (int64_t)number("SIMGPU_PINNED_LIMIT", setting("SIMGPU_PINNED_LIMIT", "1024GiB"));
    sim_hides_pids = number("SIMGPU_HIDE_PIDS", setting("SIMGPU_HIDE_PIDS", "0")) != 0;
    sim_spins = number("SIMGPU_SPIN", setting("SIMGPU_SPIN", "0")) != 0;
    char *words = strdup(setting("SIMGPU", "")), *rest;
    for (char *one = strtok_r(words, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) describe(one);
    free(words);
}

void sim_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_description);
}

/* ---- what CUDA sees ---- */

static double speed(const sim_device *d) { return d->flops_per_s[SIM_FP32] + d->flops_per_s[SIM_FP16]; }

static int candidates(int found[]) { /* in CUDA's order; of GPUs cut into instances CUDA enumerates a single instance */
    int count = 0;
    for (int i = 0; i < sim_device_count; i++)
        if (sim_devices[i].parent < 0 && !sim_devices[i].mig_enabled) found[count++] = i;
    for (int i = 0; i < sim_device_count && !count; i++)
        if (sim_devices[i].parent >= 0) found[count++] = i;
    if (strcmp(setting("CUDA_DEVICE_ORDER", "FASTEST_FIRST"), "PCI_BUS_ID"))
        for (int i = 1; i < count; i++)
            for (int j = i; j && speed(&sim_devices[found[j]]) > speed(&sim_devices[found[j - 1]]); j--) {
                int other = found[j];
                found[j] = found[j - 1], found[j - 1] = other;
            }
    return count;
}

static int named_device(const char *word, const int found[], int count) {
    char *rest;
    long ordinal = strtol(word, &rest, 10);
    if (rest != word && !*rest) return ordinal >= 0 && ordinal < count ? found[ordinal] : -1;
    int match = -1;
    for (int i = 0; i < sim_device_count; i++)
        if (!strncmp(sim_devices[i].uuid, word, strlen(word)) && !sim_devices[i].mig_enabled) {
            if (match >= 0) return -1; /* a prefix must name one */
            match = i;
        }
    return match;
}

static int cuda_count;
static void choose_visible(void) {
    sim_init();
    int found[SIM_DEVICES] = {0}, count = candidates(found);
    const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
    if (!wanted) {
        memcpy(sim_cuda_order, found, sizeof found);
        cuda_count = count;
        return;
    }
    char *words = strdup(wanted), *rest;
    for (char *one = strtok_r(words, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        int index = named_device(trimmed(one), found, count);
        for (int i = 0; i < cuda_count; i++)
            if (sim_cuda_order[i] == index) cuda_count = 0, index = -1; /* a device named twice: there is none */
        if (index < 0) break; /* what follows an unknown name is not seen */
        sim_cuda_order[cuda_count++] = index;
        if (sim_devices[index].parent >= 0) break;
    }
    free(words);
}

int sim_cuda_count(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_visible);
    return cuda_count;
}
