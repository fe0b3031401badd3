/* Reading cubins: registers, shared memory, parameters, and the loads and stores of a kernel's machine code.

   An instruction has 16 bytes as of compute capability 7.0; its lowest 12 bits are the operation, three bits of the
   upper half the width of an access. A branch to an earlier place ends a loop. */
#include "driver_code.h"
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    LOAD = 0x381,
    LOAD_DESCRIBED = 0x981,
    STORE = 0x386,
    STORE_DESCRIBED = 0x986,
    LOAD_TO_SHARED = 0xfae,
    BRANCH = 0x947
};
enum { PARAMETER = 0x17, PARAMETER_V2 = 0x45, SIZED = 4 };

typedef struct { const char *at; size_t bytes; const Elf64_Shdr *header; } section;

static section find(const char *image, const char *prefix, const char *kernel) {
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *headers = (const Elf64_Shdr *)(image + elf->e_shoff);
    const char *names = image + headers[elf->e_shstrndx].sh_offset;
    char wanted[512];
    snprintf(wanted, sizeof wanted, "%s%s", prefix, kernel);
    for (int i = 0; i < elf->e_shnum; i++)
        if (!strcmp(names + headers[i].sh_name, wanted))
            return (section){image + headers[i].sh_offset, headers[i].sh_size, &headers[i]};
    return (section){NULL, 0, NULL};
}

typedef struct { uint64_t low, high; } instruction;

/* What is marked to stay in the cache (evict last) is a small operand that all threads read: it isn't counted. */
static int width_of(const instruction *i) {
    static const int bytes[] = {1, 1, 2, 2, 4, 8, 16, 16};
    enum { EVICT_LAST = 2 };
    if ((i->high >> 20 & 7) == EVICT_LAST) return 0;
    switch (i->low & 0xfff) {
    case LOAD:
    case LOAD_DESCRIBED:
    case STORE:
    case STORE_DESCRIBED:
    case LOAD_TO_SHARED: return bytes[i->high >> 9 & 7];
    default: return 0;
    }
}

/* Where a branch goes, as the number of an instruction: its offset counts from the next one. */
static int64_t target_of(const instruction *i, size_t number) {
    int64_t offset = (int64_t)((i->low >> 34 | i->high << 30) << 14) >> 14;
    return (int64_t)number + 1 + offset / (int64_t)sizeof *i;
}

static void read_accesses(section text, sim_code *code) {
    const instruction *all = (const instruction *)text.at;
    size_t count = text.bytes / sizeof *all;
    for (size_t i = 0; i < count; i++) {
        int width = width_of(&all[i]);
        if (!width) continue;
        bool loops = false;
        for (size_t j = i; j < count && !loops; j++) {
            if ((all[j].low & 0xfff) != BRANCH) continue;
            int64_t target = target_of(&all[j], j);
            loops = target >= 0 && target < (int64_t)j && target <= (int64_t)i; /* to itself: the end of the code */
        }
        *(loops ? &code->loop_bytes : &code->bytes) += width;
    }
}

static void read_parameters(section info, sim_code *code) {
    for (size_t at = 0; at + 4 <= info.bytes;) {
        const uint8_t *entry = (const uint8_t *)info.at + at;
        uint16_t size = 0;
        if (entry[0] == SIZED) memcpy(&size, entry + 2, 2);
        if (entry[0] == SIZED && (entry[1] == PARAMETER || entry[1] == PARAMETER_V2) && size >= 12) {
            uint16_t ordinal;
            uint32_t flags;
            memcpy(&ordinal, entry + 8, 2), memcpy(&flags, entry + 12, 4);
            if (ordinal < CODE_PARAMETERS) code->parameter_bytes[ordinal] = (int)(flags >> 18);
            if (ordinal >= code->parameters && ordinal < CODE_PARAMETERS) code->parameters = ordinal + 1;
        }
        at += 4u + size;
    }
}

size_t sim_code_bytes(const void *image) {
    const Elf64_Ehdr *elf = image;
    return !image || memcmp(image, ELFMAG, SELFMAG) ? 0 : elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize;
}

bool sim_read_code(const void *image, const char *kernel, sim_code *code) {
    memset(code, 0, sizeof *code);
    if (!sim_code_bytes(image)) return false;
    section text = find(image, ".text.", kernel);
    if (!text.at) return false;
    code->registers = (int)(text.header->sh_info >> 24);
    code->shared_bytes = (int)find(image, ".nv.shared.", kernel).bytes;
    read_accesses(text, code);
    read_parameters(find(image, ".nv.info.", kernel), code);
    return true;
}
