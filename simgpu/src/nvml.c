/* libnvidia-ml.so.1: what monitoring tools ask of the driver.

   A handle is the device's place in sim_devices plus one, so those of MIG instances are handles like any other. What a
   GPU reports follows from its time lines and from the controls; what the simulation doesn't know is not supported. */
#define _GNU_SOURCE
#include "abi/nvml.h"
#include "core.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if CUDA_MAJOR >= 13
enum { CUDA_VERSION = 13020 };
static const char driver_version[] = "595.45.04";
#else
enum { CUDA_VERSION = 12080 };
static const char driver_version[] = "570.124.06";
#endif
enum { WINDOW_NS = 500000000 }; /* over which the driver averages what it says of the load */

static sim_device *device_of(nvml_device handle) { return &sim_devices[(intptr_t)handle - 1]; }
static nvml_device handle_of(const sim_device *d) { return (nvml_device)(intptr_t)(d->index + 1); }
static sim_device *gpu_of(sim_device *d) { return d->parent < 0 ? d : &sim_devices[d->parent]; }
static bool is_instance(nvml_device handle) { return device_of(handle)->parent >= 0; }

/* ---- what stands before every answer ---- */

static int initialised;

static int fault_of(const char *name) { /* SIMGPU_FAIL names a call without its version: nvmlDeviceGetCount */
    char plain[80];
    snprintf(plain, sizeof plain, "%s", name);
    char *version = strrchr(plain, '_');
    if (version && version[1] == 'v') *version = 0;
    int code;
    return sim_fails(plain, &code) ? code : NVML_OK;
}

static int refusal(const char *name) {
    int code = fault_of(name);
    return code || __atomic_load_n(&initialised, __ATOMIC_RELAXED) > 0 ? code : NVML_UNINITIALIZED;
}

static int refusal_of_device(const char *name, nvml_device handle) {
    int code = refusal(name);
    if (code) return code;
    if ((intptr_t)handle < 1 || (intptr_t)handle > sim_device_count) return NVML_INVALID;
    return sim_lost(gpu_of(device_of(handle))->index) ? NVML_LOST : NVML_OK;
}

static int refusal_of_gpu(const char *name, nvml_device handle) { /* a question that an instance does not answer */
    int code = refusal_of_device(name, handle);
    return code ? code : is_instance(handle) ? NVML_NOT_SUPPORTED : NVML_OK;
}

#define OR_RETURN(refused) do { int code_ = (refused); if (code_) return code_; } while (0)
#define ASK() OR_RETURN(refusal(__func__))
#define ASK_DEVICE(handle) OR_RETURN(refusal_of_device(__func__, handle))
#define ASK_GPU(handle) OR_RETURN(refusal_of_gpu(__func__, handle))

/* A question with one answer, which only whole GPUs give. */
#define ANSWER(name, type, expression) \
    int name(nvml_device handle, type *answer) { \
        ASK_GPU(handle); \
        const sim_device *d = device_of(handle); \
        (void)d; \
        *answer = (type)(expression); \
        return NVML_OK; \
    }

static int write_text(char *to, unsigned room, const char *text) {
    if (strlen(text) >= room) return NVML_TOO_SMALL;
    strcpy(to, text);
    return NVML_OK;
}

/* ---- the library ---- */

int nvmlInitWithFlags(unsigned flags) {
    OR_RETURN(fault_of("nvmlInit"));
    sim_init();
    if (!sim_device_count) return NVML_NO_DRIVER;
    __atomic_add_fetch(&initialised, 1, __ATOMIC_RELAXED);
    return NVML_OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlInit(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    ASK();
    __atomic_sub_fetch(&initialised, 1, __ATOMIC_RELAXED);
    return NVML_OK;
}

const char *nvmlErrorString(int result) {
    static const char *const words[] = {
        [NVML_OK] = "Success", [NVML_UNINITIALIZED] = "Uninitialized", [NVML_INVALID] = "Invalid Argument",
        [NVML_NOT_SUPPORTED] = "Not Supported", [4] = "Insufficient Permissions", [5] = "Already Initialized",
        [NVML_NOT_FOUND] = "Not Found", [NVML_TOO_SMALL] = "Insufficient Size", [8] = "Insufficient External Power",
        [NVML_NO_DRIVER] = "Driver Not Loaded", [10] = "Timeout", [11] = "Interrupt Request Issue",
        [12] = "NVML Shared Library Not Found", [13] = "Function Not Found", [14] = "Corrupted infoROM",
        [NVML_LOST] = "GPU is lost", [16] = "GPU requires reset", [17] = "GPU access blocked by the operating system",
        [18] = "Driver/library version mismatch", [19] = "In use by another client", [20] = "Insufficient Memory",
        [21] = "No data", [25] = "Argument version mismatch"};
    bool known = result >= 0 && result < (int)(sizeof words / sizeof *words) && words[result];
    return known ? words[result] : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *to, unsigned room) { ASK(); return write_text(to, room, driver_version); }
int nvmlSystemGetNVMLVersion(char *to, unsigned room) {
    ASK();
    char text[32];
    snprintf(text, sizeof text, "%d.%s", CUDA_VERSION / 1000, driver_version);
    return write_text(to, room, text);
}
int nvmlSystemGetCudaDriverVersion(int *version) { *version = CUDA_VERSION; return fault_of(__func__); }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = CUDA_VERSION; return fault_of(__func__); }

int nvmlSystemGetProcessName(unsigned pid, char *to, unsigned room) {
    ASK();
    char path[64], name[4096];
    snprintf(path, sizeof path, "/proc/%u/exe", pid);
    ssize_t got = readlink(path, name, sizeof name - 1);
    if (got < 0) return NVML_NOT_FOUND;
    if (room) snprintf(to, room, "%.*s", (int)got, name); /* cut short, as the driver does */
    return NVML_OK;
}

/* ---- which devices there are ---- */

static sim_device *gpu_at(unsigned place) { /* among the GPUs, without their instances */
    for (int i = 0; i < sim_device_count; i++)
        if (sim_devices[i].parent < 0 && place-- == 0) return &sim_devices[i];
    return NULL;
}

static sim_device *instance_at(const sim_device *gpu, unsigned place) {
    for (int i = 0; i < sim_device_count; i++)
        if (sim_devices[i].parent == gpu->index && (unsigned)sim_devices[i].mig_index == place) return &sim_devices[i];
    return NULL;
}

static int give(sim_device *d, nvml_device *handle, int otherwise) {
    if (!d) return otherwise;
    if (sim_lost(gpu_of(d)->index)) return NVML_LOST;
    *handle = handle_of(d);
    return NVML_OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    ASK();
    for (*count = 0; gpu_at(*count); ++*count) {}
    return NVML_OK;
}
int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

int nvmlDeviceGetHandleByIndex_v2(unsigned place, nvml_device *handle) {
    ASK();
    return give(gpu_at(place), handle, NVML_INVALID);
}
int nvmlDeviceGetHandleByIndex(unsigned place, nvml_device *handle) {
    return nvmlDeviceGetHandleByIndex_v2(place, handle);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *handle) {
    ASK();
    for (int i = 0; i < sim_device_count; i++)
        if (!strcmp(sim_devices[i].uuid, uuid)) return give(&sim_devices[i], handle, NVML_NOT_FOUND);
    return NVML_NOT_FOUND;
}

int nvmlDeviceGetHandleByUUIDV(const nvml_uuid *uuid, nvml_device *handle) {
    enum { TEXT = 1, BYTES = 2 };
    if (uuid->type == TEXT) return nvmlDeviceGetHandleByUUID(uuid->value.text, handle);
    ASK();
    if (uuid->type != BYTES) return NVML_INVALID;
    for (int i = 0; i < sim_device_count; i++)
        if (!memcmp(sim_devices[i].uuid_bytes, uuid->value.bytes, 16))
            return give(&sim_devices[i], handle, NVML_NOT_FOUND);
    return NVML_NOT_FOUND;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvml_device *handle) {
    ASK();
    unsigned domain, bus;
    if (sscanf(id, "%x:%x:", &domain, &bus) != 2) return NVML_INVALID;
    for (unsigned i = 0; gpu_at(i); i++)
        if ((unsigned)gpu_at(i)->pci_bus == bus && !domain) return give(gpu_at(i), handle, NVML_NOT_FOUND);
    return NVML_NOT_FOUND;
}
int nvmlDeviceGetHandleByPciBusId(const char *id, nvml_device *handle) {
    return nvmlDeviceGetHandleByPciBusId_v2(id, handle);
}

int nvmlDeviceGetIndex(nvml_device handle, unsigned *place) {
    ASK_DEVICE(handle);
    if (is_instance(handle)) *place = (unsigned)device_of(handle)->mig_index;
    else for (*place = 0; gpu_at(*place) != device_of(handle); ++*place) {}
    return NVML_OK;
}

int nvmlDeviceGetMinorNumber(nvml_device handle, unsigned *number) {
    ASK_GPU(handle);
    return nvmlDeviceGetIndex(handle, number);
}

/* ---- MIG ---- */

int nvmlDeviceGetMigMode(nvml_device handle, unsigned *now, unsigned *after_reset) {
    ASK_GPU(handle);
    if (!sim_can_be_cut(device_of(handle))) return NVML_NOT_SUPPORTED;
    *now = *after_reset = device_of(handle)->mig_enabled;
    return NVML_OK;
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_device handle, unsigned *count) {
    ASK_GPU(handle);
    *count = sim_can_be_cut(device_of(handle)) ? SIM_MIG_SLICES : 0;
    return NVML_OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device handle, unsigned place, nvml_device *instance) {
    ASK_GPU(handle);
    if (!sim_can_be_cut(device_of(handle))) return NVML_NOT_SUPPORTED;
    return give(instance_at(device_of(handle), place), instance, place < SIM_MIG_SLICES ? NVML_NOT_FOUND : NVML_INVALID);
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml_device handle, nvml_device *gpu) {
    ASK_DEVICE(handle);
    if (!is_instance(handle)) return NVML_INVALID;
    *gpu = handle_of(gpu_of(device_of(handle)));
    return NVML_OK;
}

int nvmlDeviceIsMigDeviceHandle(nvml_device handle, unsigned *is) {
    ASK_DEVICE(handle);
    *is = is_instance(handle);
    return NVML_OK;
}

static unsigned instance_id(const sim_device *d) { return (unsigned)d->mig_index + 1; } /* 0 is the whole GPU's */

int nvmlDeviceGetGpuInstanceId(nvml_device handle, unsigned *id) {
    ASK_DEVICE(handle);
    *id = instance_id(device_of(handle));
    return is_instance(handle) ? NVML_OK : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetComputeInstanceId(nvml_device handle, unsigned *id) {
    ASK_DEVICE(handle);
    *id = 0; /* each has one compute instance, which takes all of it */
    return is_instance(handle) ? NVML_OK : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetAttributes_v2(nvml_device handle, nvml_attributes *a) {
    ASK_DEVICE(handle);
    sim_device *d = device_of(handle);
    if (!is_instance(handle)) return NVML_NOT_SUPPORTED;
    *a = (nvml_attributes){.multiprocessors = (unsigned)d->multiprocessors, .copy_engines = 1,
                           .gpu_slices = (unsigned)d->mig_slices, .compute_slices = (unsigned)d->mig_slices,
                           .memory_mb = (nvml_long)d->driver_bytes >> 20};
    return NVML_OK;
}

/* ---- what a device is ---- */

int nvmlDeviceGetName(nvml_device handle, char *to, unsigned room) {
    ASK_DEVICE(handle);
    return write_text(to, room, device_of(handle)->name);
}

int nvmlDeviceGetUUID(nvml_device handle, char *to, unsigned room) {
    ASK_DEVICE(handle);
    return write_text(to, room, device_of(handle)->uuid);
}

int nvmlDeviceGetCudaComputeCapability(nvml_device handle, int *major, int *minor) {
    ASK_DEVICE(handle);
    *major = device_of(handle)->major, *minor = device_of(handle)->minor;
    return NVML_OK;
}

int nvmlDeviceGetArchitecture(nvml_device handle, unsigned *architecture) {
    ASK_GPU(handle);
    const sim_device *d = device_of(handle);
    *architecture = d->major == 3 ? 2 : d->major == 5 ? 3 : d->major == 6 ? 4
                    : d->major == 7 ? (d->minor < 5 ? 5 : 6) : d->major == 8 ? (d->minor < 9 ? 7 : 8)
                    : d->major == 9 ? 9 : 10;
    return NVML_OK;
}

int nvmlDeviceGetPciInfo_v3(nvml_device handle, nvml_pci *pci) {
    ASK_DEVICE(handle);
    *pci = (nvml_pci){.bus = (unsigned)gpu_of(device_of(handle))->pci_bus, .id = 0x10de};
    snprintf(pci->legacy_id, sizeof pci->legacy_id, "0000:%02X:00.0", pci->bus);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return NVML_OK;
}
int nvmlDeviceGetPciInfo_v2(nvml_device handle, nvml_pci *pci) { return nvmlDeviceGetPciInfo_v3(handle, pci); }
int nvmlDeviceGetPciInfo(nvml_device handle, nvml_pci *pci) { return nvmlDeviceGetPciInfo_v3(handle, pci); }

int nvmlDeviceGetPciInfoExt(nvml_device handle, nvml_pci_ext *pci) {
    ASK_DEVICE(handle);
    pci->bus = (unsigned)gpu_of(device_of(handle))->pci_bus, pci->id = 0x10de, pci->base_class = 3, pci->sub_class = 2;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return NVML_OK;
}

ANSWER(nvmlDeviceGetPersistenceMode, int, 1)
ANSWER(nvmlDeviceGetComputeMode, int, 0)
ANSWER(nvmlDeviceGetDisplayMode, int, 0)
ANSWER(nvmlDeviceGetDisplayActive, int, 0)
int nvmlDeviceGetNumaNodeId(nvml_device handle, unsigned *node) {
    ASK_GPU(handle);
    *node = (unsigned)device_of(handle)->numa_node;
    return device_of(handle)->numa_node < 0 ? NVML_NOT_SUPPORTED : NVML_OK;
}

/* ---- memory and who holds it ---- */

static int64_t used_bytes(const sim_device *d) { /* of a GPU: with its instances; `set` may have asked for more */
    int64_t sum = sim_used_bytes(d->index);
    for (unsigned i = 0; d->mig_enabled && instance_at(d, i); i++) sum += sim_used_bytes(instance_at(d, i)->index);
    return sum < d->memory_bytes ? sum : d->memory_bytes;
}

int nvmlDeviceGetMemoryInfo_v2(nvml_device handle, nvml_memory_2 *m) { /* what CUDA can't have is the driver's own */
    ASK_DEVICE(handle);
    const sim_device *d = device_of(handle);
    m->total = (nvml_long)d->driver_bytes, m->reserved = (nvml_long)(d->driver_bytes - d->memory_bytes);
    m->used = (nvml_long)used_bytes(d), m->free = m->total - m->reserved - m->used;
    return NVML_OK;
}

/* The older question counts the driver's own as used. */
int nvmlDeviceGetMemoryInfo(nvml_device handle, nvml_memory *m) {
    nvml_memory_2 all;
    OR_RETURN(nvmlDeviceGetMemoryInfo_v2(handle, &all));
    *m = (nvml_memory){all.total, all.free, all.used + all.reserved};
    return NVML_OK;
}

int nvmlDeviceGetBAR1MemoryInfo(nvml_device handle, nvml_memory *m) { /* total, free, used as above */
    ASK_GPU(handle);
    nvml_long total = 256 << 20;
    while (device_of(handle)->major >= 8 && total < (nvml_long)device_of(handle)->driver_bytes) total *= 2;
    *m = (nvml_memory){total, total - (1 << 20), 1 << 20};
    return NVML_OK;
}

/* The driver says the host's pids: of another container's process one that nobody has here. */
static unsigned pid_of(const sim_process *p) {
    enum { MOST_PIDS = 4194304 };
    return (unsigned)p->pid + (p->is_outside ? MOST_PIDS : 0);
}

/* One row for each process and instance: a GPU lists those of its instances too. */
static unsigned list_processes(const sim_device *d, nvml_process rows[], unsigned room) {
    unsigned found = 0;
    for (int slot = 0; slot < SIM_PROCESSES && !sim_hides_pids; slot++) {
        if (!sim_alive(slot)) continue;
        const sim_process *p = &sim_state()->process[slot];
        for (int i = 0; i < sim_device_count; i++) {
            const sim_device *on = &sim_devices[i];
            if (!p->context[i] || (on != d && on->parent != d->index)) continue;
            unsigned instance = on->parent < 0 ? ~0u : instance_id(on), compute = on->parent < 0 ? ~0u : 0;
            if (found++ < room)
                rows[found - 1] = (nvml_process){pid_of(p), (nvml_long)p->used_bytes[i], instance, compute};
        }
    }
    return found;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device handle, unsigned *count, nvml_process *rows) {
    ASK_DEVICE(handle);
    unsigned room = rows ? *count : 0;
    *count = list_processes(device_of(handle), rows, room);
    return *count > room ? NVML_TOO_SMALL : NVML_OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(nvml_device handle, unsigned *count, nvml_process *rows) {
    return nvmlDeviceGetComputeRunningProcesses_v3(handle, count, rows);
}
int nvmlDeviceGetComputeRunningProcesses(nvml_device handle, unsigned *count, nvml_process_1 *rows) {
    ASK_DEVICE(handle);
    nvml_process all[SIM_PROCESSES];
    unsigned room = rows ? *count : 0;
    *count = list_processes(device_of(handle), all, SIM_PROCESSES);
    if (*count > room) return NVML_TOO_SMALL;
    for (unsigned i = 0; i < *count; i++) rows[i] = (nvml_process_1){all[i].pid, all[i].used};
    return NVML_OK;
}

#define NO_PROCESSES(name) \
    int name(nvml_device handle, unsigned *count, void *rows) { \
        ASK_DEVICE(handle); \
        *count = 0; \
        return NVML_OK; \
    }
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

static nvml_long wall_clock_us(void) { /* NVML's timestamps count from 1970 */
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (nvml_long)t.tv_sec * 1000000u + (nvml_long)t.tv_nsec / 1000;
}

static double busy_of_process(const sim_process *p, int index) {
    int64_t last = sim_now() / SIM_BUCKET_NS - 1, busy = 0;
    for (int64_t epoch = last - WINDOW_NS / SIM_BUCKET_NS + 1; epoch <= last; epoch++) {
        const sim_bucket *b = &p->busy[index][epoch % SIM_BUCKETS];
        if (b->epoch == epoch) busy += b->busy_ns;
    }
    return fmin(1, (double)busy / WINDOW_NS);
}

int nvmlDeviceGetProcessUtilization(nvml_device handle, nvml_process_rates *rows, unsigned *count, nvml_long since_us) {
    ASK_GPU(handle);
    if (device_of(handle)->mig_enabled) return NVML_NOT_SUPPORTED;
    int index = device_of(handle)->index;
    unsigned found = 0, room = rows ? *count : 0;
    nvml_long now_us = wall_clock_us();
    for (int slot = 0; slot < SIM_PROCESSES && !sim_hides_pids; slot++) {
        const sim_process *p = &sim_state()->process[slot];
        if (!sim_alive(slot) || !p->context[index]) continue;
        unsigned percent = (unsigned)lround(100 * busy_of_process(p, index));
        if (found++ < room)
            rows[found - 1] = (nvml_process_rates){.pid = pid_of(p), .at_us = now_us, .sm = percent};
    }
    *count = found;
    return !found ? NVML_NOT_FOUND : found > room ? NVML_TOO_SMALL : NVML_OK;
}

/* ---- load, power, heat, clocks ---- */

static double busy_share(const sim_device *d) { /* of a GPU that is cut: its instances' by their slices */
    double share = sim_busy_share(d->index, WINDOW_NS);
    for (unsigned i = 0; d->mig_enabled && instance_at(d, i); i++)
        share += sim_busy_share(instance_at(d, i)->index, WINDOW_NS) * instance_at(d, i)->mig_slices / SIM_MIG_SLICES;
    return fmin(1, share);
}

int nvmlDeviceGetUtilizationRates(nvml_device handle, nvml_rates *rates) {
    ASK_GPU(handle);
    if (device_of(handle)->mig_enabled) return NVML_NOT_SUPPORTED;
    double busy = busy_share(device_of(handle));
    *rates = (nvml_rates){(unsigned)lround(100 * busy), (unsigned)lround(50 * busy)}; /* memory's is not modelled */
    return NVML_OK;
}

static double watts(const sim_device *d) {
    return d->idle_w + (d->limit_w - d->idle_w) * busy_share(d) * fmin(1, sim_clock_share(d->index, sim_now()));
}

ANSWER(nvmlDeviceGetPowerUsage, unsigned, lround(1e3 * watts(d)))

static double millijoules(const sim_device *d) { /* since this process first asked, at the power seen when it asks */
    static double used_mj[SIM_DEVICES], asked_ms[SIM_DEVICES];
    double now_ms = (double)sim_now() * 1e-6, before_ms = asked_ms[d->index] > 0 ? asked_ms[d->index] : now_ms;
    asked_ms[d->index] = now_ms;
    return used_mj[d->index] += watts(d) * (now_ms - before_ms);
}

ANSWER(nvmlDeviceGetTotalEnergyConsumption, nvml_long, millijoules(d))
ANSWER(nvmlDeviceGetEnforcedPowerLimit, unsigned, lround(1e3 * d->limit_w))
ANSWER(nvmlDeviceGetPowerManagementLimit, unsigned, lround(1e3 * d->limit_w))
ANSWER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, lround(1e3 * d->limit_w))
int nvmlDeviceGetPowerManagementLimitConstraints(nvml_device handle, unsigned *least_mw, unsigned *most_mw) {
    ASK_GPU(handle);
    *most_mw = (unsigned)lround(1e3 * device_of(handle)->limit_w), *least_mw = *most_mw / 2;
    return NVML_OK;
}
ANSWER(nvmlDeviceGetPowerManagementMode, int, 1)
ANSWER(nvmlDeviceGetPowerState, int, busy_share(d) > 0 ? 0 : 8)
ANSWER(nvmlDeviceGetPerformanceState, int, busy_share(d) > 0 ? 0 : 8)

static int celsius(const sim_device *d) { return (int)lround(33 + 40 * busy_share(d)); }

int nvmlDeviceGetTemperature(nvml_device handle, int sensor, unsigned *degrees) {
    ASK_GPU(handle);
    *degrees = (unsigned)celsius(device_of(handle));
    return sensor ? NVML_INVALID : NVML_OK;
}
int nvmlDeviceGetTemperatureV(nvml_device handle, nvml_temperature *t) {
    ASK_GPU(handle);
    t->celsius = celsius(device_of(handle));
    return t->sensor ? NVML_INVALID : NVML_OK;
}

static unsigned clock_mhz(const sim_device *d, int clock) {
    enum { IDLE_MHZ = 210 };
    if (clock == NVML_CLOCK_MEM) return (unsigned)d->memory_clock_mhz;
    return busy_share(d) > 0 ? (unsigned)lround(d->max_sm_clock_mhz * sim_clock_share(d->index, sim_now())) : IDLE_MHZ;
}

int nvmlDeviceGetClockInfo(nvml_device handle, int clock, unsigned *mhz) {
    ASK_GPU(handle);
    if (clock < 0 || clock >= NVML_CLOCKS) return NVML_INVALID;
    *mhz = clock_mhz(device_of(handle), clock);
    return NVML_OK;
}
int nvmlDeviceGetClock(nvml_device handle, int clock, int which, unsigned *mhz) {
    return which ? refusal_of_gpu(__func__, handle) ?: NVML_NOT_SUPPORTED : nvmlDeviceGetClockInfo(handle, clock, mhz);
}
int nvmlDeviceGetMaxClockInfo(nvml_device handle, int clock, unsigned *mhz) {
    ASK_GPU(handle);
    if (clock < 0 || clock >= NVML_CLOCKS) return NVML_INVALID;
    const sim_device *d = device_of(handle);
    *mhz = (unsigned)(clock == NVML_CLOCK_MEM ? d->memory_clock_mhz : d->max_sm_clock_mhz);
    return NVML_OK;
}

static nvml_long reasons(const sim_device *d) { /* of a GPU that is cut the load is its instances' */
    nvml_long mask = (nvml_long)sim_throttle_mask(d->index), idle = 1;
    return d->mig_enabled && busy_share(d) > 0 ? mask & ~idle : mask;
}
enum { MODELLED_REASONS = 0x1ff };
ANSWER(nvmlDeviceGetCurrentClocksEventReasons, nvml_long, reasons(d)) /* of one thing two names: the newer, the older */
ANSWER(nvmlDeviceGetCurrentClocksThrottleReasons, nvml_long, reasons(d))
ANSWER(nvmlDeviceGetSupportedClocksEventReasons, nvml_long, MODELLED_REASONS)
ANSWER(nvmlDeviceGetSupportedClocksThrottleReasons, nvml_long, MODELLED_REASONS)

int nvmlDeviceGetFieldValues(nvml_device handle, int count, nvml_field *fields) {
    ASK_GPU(handle);
    for (nvml_field *f = fields; f < fields + count; f++) {
        f->at_us = (int64_t)wall_clock_us(), f->latency_us = 0, f->result = NVML_OK;
        if (f->field == NVML_FIELD_POWER_AVERAGE || f->field == NVML_FIELD_POWER_INSTANT)
            f->type = NVML_IS_UINT, f->value.whole = (unsigned)lround(1e3 * watts(device_of(handle)));
        else f->result = NVML_NOT_SUPPORTED;
    }
    return NVML_OK;
}

/* ---- errors in memory ---- */

int nvmlDeviceGetEccMode(nvml_device handle, int *now, int *after_reset) {
    ASK_GPU(handle);
    *now = *after_reset = device_of(handle)->ecc;
    return device_of(handle)->ecc ? NVML_OK : NVML_NOT_SUPPORTED;
}
int nvmlDeviceGetTotalEccErrors(nvml_device handle, int kind, int counter, nvml_long *count) {
    ASK_GPU(handle);
    if (!device_of(handle)->ecc) return NVML_NOT_SUPPORTED;
    *count = kind == NVML_UNCORRECTED ? (nvml_long)sim_state()->control[device_of(handle)->index].ecc_errors : 0;
    return NVML_OK;
}

/* ---- links ---- */

ANSWER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, d->pcie_generation)
ANSWER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, d->pcie_generation)
ANSWER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, d->pcie_generation)
ANSWER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, d->pcie_lanes)
ANSWER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, d->pcie_lanes)
ANSWER(nvmlDeviceGetPcieReplayCounter, unsigned, 0)

static int64_t moved_bytes(const sim_device *d, sim_engine engine) {
    int64_t sum = 0;
    for (int slot = 0; slot < SIM_PROCESSES; slot++)
        for (int i = 0; sim_alive(slot) && i < sim_device_count; i++)
            if (i == d->index || sim_devices[i].parent == d->index)
                sum += sim_state()->process[slot].moved_bytes[i][engine];
    return sum;
}

/* A copy is counted when it is queued, so no window may show more than the link can carry; and nothing is negative
   when a process that copied has ended in between. */
static double moved_per_s(const sim_device *d, int64_t bytes, int64_t ns) {
    double rate = ns > 0 ? (double)bytes / (double)ns * 1e9 : 0;
    return rate < 0 ? 0 : fmin(rate, d->pinned_bytes_per_s);
}

int nvmlDeviceGetPcieThroughput(nvml_device handle, int counter, unsigned *kilobytes_per_s) {
    enum { SAMPLE_NS = 20000000 };
    ASK_GPU(handle);
    if (counter != NVML_PCIE_SENT && counter != NVML_PCIE_RECEIVED) return NVML_INVALID;
    const sim_device *d = device_of(handle);
    sim_engine engine = counter == NVML_PCIE_SENT ? SIM_D2H : SIM_H2D;
    int64_t before = moved_bytes(d, engine), since = sim_now();
    usleep(SAMPLE_NS / 1000); /* the driver watches the link for as long */
    *kilobytes_per_s = (unsigned)(moved_per_s(d, moved_bytes(d, engine) - before, sim_now() - since) / 1e3);
    return NVML_OK;
}

int nvmlDeviceGetNvLinkState(nvml_device handle, unsigned link, int *active) {
    ASK_GPU(handle);
    if (!device_of(handle)->nvlinks) return NVML_NOT_SUPPORTED;
    *active = 1;
    return link < (unsigned)device_of(handle)->nvlinks ? NVML_OK : NVML_INVALID;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device handle, unsigned link, int *kind) { /* all meet in a switch */
    ASK_GPU(handle);
    if (!device_of(handle)->nvlinks) return NVML_NOT_SUPPORTED;
    *kind = NVML_LINK_TO_SWITCH;
    return link < (unsigned)device_of(handle)->nvlinks ? NVML_OK : NVML_INVALID;
}

int nvmlDeviceGetP2PStatus(nvml_device one, nvml_device other, int kind, int *status) {
    ASK_GPU(one);
    ASK_GPU(other);
    bool linked = device_of(one)->nvlinks && device_of(other)->nvlinks;
    *status = kind != NVML_P2P_NVLINK || linked ? NVML_P2P_OK : NVML_P2P_NOT_SUPPORTED;
    return NVML_OK;
}
int nvmlDeviceGetTopologyCommonAncestor(nvml_device one, nvml_device other, int *level) {
    ASK_GPU(one);
    ASK_GPU(other);
    *level = device_of(one)->numa_node == device_of(other)->numa_node ? NVML_TOPOLOGY_HOSTBRIDGE : NVML_TOPOLOGY_NODE;
    return NVML_OK;
}

/* ---- counters of Hopper and newer: read in pairs of samples ---- */

typedef struct { int index; int64_t at, moved[SIM_ENGINES]; } gpm_sample;

int nvmlGpmQueryDeviceSupport(nvml_device handle, nvml_gpm_support *support) {
    ASK_GPU(handle);
    support->supported = device_of(handle)->major >= 9;
    return NVML_OK;
}

int nvmlGpmSampleAlloc(void **sample) { ASK(); *sample = calloc(1, sizeof(gpm_sample)); return NVML_OK; }
int nvmlGpmSampleFree(void *sample) { ASK(); free(sample); return NVML_OK; }

/* How long of a span of time the device computed; of buckets that the span cuts, its part. */
static double busy_between(int index, int64_t begin, int64_t end) {
    double busy = 0;
    for (int64_t epoch = begin / SIM_BUCKET_NS; epoch * SIM_BUCKET_NS < end; epoch++) {
        int64_t from = epoch * SIM_BUCKET_NS, to = from + SIM_BUCKET_NS;
        double part = (double)((to < end ? to : end) - (from > begin ? from : begin)) / SIM_BUCKET_NS;
        for (int slot = 0; slot < SIM_PROCESSES; slot++) {
            const sim_bucket *b = &sim_state()->process[slot].busy[index][epoch % SIM_BUCKETS];
            if (b->epoch == epoch && sim_alive(slot)) busy += part * (double)b->busy_ns;
        }
    }
    return busy;
}

int nvmlGpmSampleGet(nvml_device handle, void *to) {
    ASK_GPU(handle);
    const sim_device *d = device_of(handle);
    if (d->major < 9) return NVML_NOT_SUPPORTED;
    *(gpm_sample *)to = (gpm_sample){
        d->index, sim_now(), {[SIM_H2D] = moved_bytes(d, SIM_H2D), [SIM_D2H] = moved_bytes(d, SIM_D2H)}};
    return NVML_OK;
}

static int gpm_figure(const gpm_sample *a, const gpm_sample *b, unsigned id, double *value) {
    const sim_device *d = &sim_devices[a->index];
    int64_t ns = b->at - a->at;
    const double mib = 1048576;
    if (id == GPM_GRAPHICS_UTIL || id == GPM_SM_UTIL) /* a simulated kernel has all multiprocessors */
        *value = fmin(100, 100 * busy_between(a->index, a->at, b->at) / (double)ns);
    else if (id == GPM_PCIE_SENT) *value = moved_per_s(d, b->moved[SIM_D2H] - a->moved[SIM_D2H], ns) / mib;
    else if (id == GPM_PCIE_RECEIVED) *value = moved_per_s(d, b->moved[SIM_H2D] - a->moved[SIM_H2D], ns) / mib;
    else return NVML_NOT_SUPPORTED;
    return NVML_OK;
}

int nvmlGpmMetricsGet(nvml_gpm_question *q) {
    ASK();
    const gpm_sample *a = q->first, *b = q->second;
    const int64_t longest_ns = (int64_t)SIM_BUCKET_NS * (SIM_BUCKETS / 2); /* older buckets are written anew */
    if (q->version != 1) return NVML_WRONG_VERSION;
    if (!a || !b || a->index != b->index || b->at <= a->at || b->at - a->at > longest_ns) return NVML_INVALID;
    if (sim_lost(a->index)) return NVML_LOST;
    for (nvml_gpm_metric *m = q->metrics; m < q->metrics + q->count; m++)
        m->result = gpm_figure(a, b, m->id, &m->value);
    return NVML_OK;
}
