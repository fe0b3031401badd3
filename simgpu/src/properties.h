/* What CUDA says of a device: the attributes that its runtime and its driver number alike. */
#pragma once
#include "core.h"
bool sim_attribute(const sim_device *device, int attribute, int *value);
int sim_blocks_per_sm(const sim_device *device, int threads,
                      size_t shared_bytes); /* a kernel's, by threads and shared memory */
bool sim_are_peers(int ordinal, int other); /* whether one may read the other's memory */
double sim_link_bytes_per_s(const sim_device *device); /* of all its NVLinks, one direction; 0: it has none */
double sim_peer_bytes_per_s(int ordinal, int other);
