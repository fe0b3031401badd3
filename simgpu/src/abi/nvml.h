/* What we use of NVML's interface: its results, and the records whose layout its callers read. */
#pragma once
#include <stdint.h>

enum {
    NVML_OK = 0, NVML_UNINITIALIZED = 1, NVML_INVALID = 2, NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6,
    NVML_TOO_SMALL = 7, NVML_NO_DRIVER = 9, NVML_LOST = 15, NVML_WRONG_VERSION = 25
};
enum { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO, NVML_CLOCKS };
enum { NVML_UNCORRECTED = 1 };            /* of errors in memory; 0 are those that ECC corrected */
enum { NVML_PCIE_SENT, NVML_PCIE_RECEIVED };
enum { NVML_TOPOLOGY_HOSTBRIDGE = 30, NVML_TOPOLOGY_NODE = 40 };
enum { NVML_P2P_NVLINK = 2, NVML_P2P_OK = 0, NVML_P2P_NOT_SUPPORTED = 5 };
enum { NVML_LINK_TO_SWITCH = 2 };         /* what the far end of an NVLink is */
enum { NVML_FIELD_POWER_AVERAGE = 185, NVML_FIELD_POWER_INSTANT = 186, NVML_IS_UINT = 1 };

typedef void *nvml_device;
typedef unsigned long long nvml_long;
typedef struct { nvml_long total, free, used; } nvml_memory;
typedef struct { unsigned version; nvml_long total, reserved, free, used; } nvml_memory_2;
typedef struct { char legacy_id[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } nvml_pci;
typedef struct {
    unsigned version, domain, bus, device, id, subsystem, base_class, sub_class;
    char bus_id[32];
} nvml_pci_ext;
typedef struct { unsigned gpu, memory; } nvml_rates;
typedef struct { unsigned pid; nvml_long used; unsigned gpu_instance, compute_instance; } nvml_process;
typedef struct { unsigned pid; nvml_long used; } nvml_process_1;
typedef struct { unsigned pid; nvml_long at_us; unsigned sm, memory, encoder, decoder; } nvml_process_rates;
typedef struct { unsigned version; int sensor, celsius; } nvml_temperature;
typedef struct { unsigned version, type; union { char text[41]; uint8_t bytes[16]; } value; } nvml_uuid;
typedef struct {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    nvml_long memory_mb;
} nvml_attributes;
typedef struct {
    uint32_t field, scope;
    int64_t at_us, latency_us;
    unsigned type;
    int result;
    union { double real; unsigned whole; nvml_long large; } value;
} nvml_field;

/* ---- the counters of Hopper and newer (GPM) ---- */

enum { GPM_GRAPHICS_UTIL = 1, GPM_SM_UTIL = 2, GPM_PCIE_SENT = 20, GPM_PCIE_RECEIVED = 21 };
typedef struct { unsigned version, supported; } nvml_gpm_support;
typedef struct { unsigned id; int result; double value; const char *short_name, *long_name, *unit; } nvml_gpm_metric;
typedef struct { unsigned version, count; void *first, *second; nvml_gpm_metric metrics[]; } nvml_gpm_question;
