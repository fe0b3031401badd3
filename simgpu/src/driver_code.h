/* What a compiled kernel's file tells: read from the ELF image that Triton or NVRTC loads. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { CODE_PARAMETERS = 64 };
typedef struct {
    int registers, shared_bytes;
    double bytes, loop_bytes; /* what a thread's loads and stores of global memory move, outside loops and in them */
    int parameters;                   /* how many, and their sizes in order */
    int parameter_bytes[CODE_PARAMETERS];
} sim_code;

size_t sim_code_bytes(const void *image); /* of a cubin, which its section table ends; 0: PTX, a fat binary */
bool sim_read_code(const void *image, const char *kernel,
                   sim_code *code); /* false: no cubin, or no such kernel in it */
