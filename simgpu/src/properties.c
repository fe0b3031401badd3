/* What CUDA says of a device beyond its file: derived once, for the runtime and the driver. */
#include "properties.h"
#include "abi/cuda.h"
#include <string.h>

/* The narrowest bus that there is which, at the memory's clock, can carry what the device reaches. */
static int bus_bits(const sim_device *d) {
    static const int widths[] = {64, 128, 192, 256, 384, 512, 3072, 4096, 5120, 6144, 8192};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (widths[i] / 8. * 2e6 * d->memory_clock_mhz >= d->bytes_per_s) return widths[i];
    return 8192;
}

bool sim_attribute(const sim_device *d, int attribute, int *value) {
    switch (attribute) {
    case ATTR_MAX_THREADS_PER_BLOCK: case ATTR_MAX_BLOCK_X: case ATTR_MAX_BLOCK_Y: *value = 1024; break;
    case ATTR_MAX_BLOCK_Z: *value = 64; break;
    case ATTR_MAX_GRID_X: case ATTR_MAX_PITCH: *value = INT32_MAX; break;
    case ATTR_MAX_GRID_Y: case ATTR_MAX_GRID_Z: *value = 65535; break;
    case ATTR_SHARED_PER_BLOCK: *value = 49152; break;
    case ATTR_SHARED_PER_BLOCK_OPTIN: *value = d->shared_bytes_per_block; break;
    case ATTR_SHARED_PER_SM: *value = d->shared_bytes_per_sm; break;
    case ATTR_SHARED_RESERVED: *value = d->major >= 8 ? 1024 : 0; break;
    case ATTR_CONSTANT_BYTES: case ATTR_REGISTERS_PER_BLOCK: case ATTR_REGISTERS_PER_SM: *value = 65536; break;
    case ATTR_WARP_SIZE: case ATTR_FP32_TO_FP64: *value = 32; break;
    case ATTR_TEXTURE_ALIGNMENT: *value = 512; break;
    case ATTR_CLOCK_KHZ: *value = 1000 * d->max_sm_clock_mhz; break;
    case ATTR_MEMORY_CLOCK_KHZ: *value = 1000 * d->memory_clock_mhz; break;
    case ATTR_MEMORY_BUS_BITS: *value = bus_bits(d); break;
    case ATTR_MULTIPROCESSORS: *value = d->multiprocessors; break;
    case ATTR_L2_BYTES: *value = d->l2_bytes; break;
    case ATTR_THREADS_PER_SM: *value = d->threads_per_sm; break;
    case ATTR_BLOCKS_PER_SM: *value = d->blocks_per_sm; break;
    case ATTR_COPY_ENGINES: *value = 2; break;
    case ATTR_ECC: *value = d->ecc; break;
    case ATTR_PCI_BUS: *value = d->pci_bus; break;
    case ATTR_MAJOR: *value = d->major; break;
    case ATTR_MINOR: *value = d->minor; break;
    case ATTR_CLUSTER_LAUNCH: *value = d->major >= 9; break;
    case ATTR_OVERLAPS: case ATTR_MAPS_HOST_MEMORY: case ATTR_CONCURRENT_KERNELS: case ATTR_UNIFIED_ADDRESSING:
    case ATTR_STREAM_PRIORITIES: case ATTR_GLOBAL_L1: case ATTR_LOCAL_L1: case ATTR_PREEMPTS: case ATTR_HOST_POINTERS:
    case ATTR_COOPERATIVE_LAUNCH: case ATTR_HOST_REGISTER: case ATTR_VIRTUAL_MEMORY: case ATTR_MEMORY_POOLS:
        *value = 1;
        break;
    case ATTR_COMPUTE_MODE: case ATTR_PCI_DEVICE: case ATTR_PCI_DOMAIN: case ATTR_MANAGED_MEMORY: case ATTR_MULTICAST:
    case ATTR_FILE_HANDLES: case ATTR_FABRIC_HANDLES:
        *value = 0;
        break;
    default: return false;
    }
    return true;
}

int sim_blocks_per_sm(const sim_device *d, int threads, size_t shared_bytes) {
    if (threads <= 0) return 0;
    int blocks = d->threads_per_sm / ((threads + 31) / 32 * 32);
    if (blocks > d->blocks_per_sm) blocks = d->blocks_per_sm;
    if (shared_bytes && blocks > (int)((size_t)d->shared_bytes_per_sm / shared_bytes))
        blocks = (int)((size_t)d->shared_bytes_per_sm / shared_bytes);
    return blocks;
}

bool sim_are_peers(int ordinal, int other) {
    const sim_device *a = sim_device_of(ordinal), *b = sim_device_of(other);
    if (a == b || a->parent >= 0 || b->parent >= 0) return false; /* no MIG instance has peers */
    if (a->major != b->major || a->minor != b->minor) return false;
    return (a->nvlinks && b->nvlinks) || !strstr(a->name, "GeForce"); /* consumer cards refuse it over PCIe */
}

double sim_link_bytes_per_s(const sim_device *d) { /* a link and direction, by the architectures' datasheets */
    double each = d->major >= 10 ? 50e9 : d->major == 8 && d->minor == 6 ? 14.0625e9 : d->major < 7 ? 20e9 : 25e9;
    return d->nvlinks * each / d->slower;
}

double sim_peer_bytes_per_s(int ordinal, int other) {
    const sim_device *a = sim_device_of(ordinal), *b = sim_device_of(other);
    double one = sim_link_bytes_per_s(a), two = sim_link_bytes_per_s(b), reached = 0.88;
    if (one > 0 && two > 0) return reached * (one < two ? one : two);
    return a->pinned_bytes_per_s < b->pinned_bytes_per_s ? a->pinned_bytes_per_s : b->pinned_bytes_per_s;
}
