/* The few kernels that compute: filling, of which GradScaler's scale and torch.ones are made. */
#include "cudart.h"
#include <string.h>

static void fill(const char *name, void **args) { /* its name holds the type; count, value and address are its arguments */
    const char *type = strstr(name, "11FillFunctorI");
    if (!type || !strstr(name, "elementwise_kernel") || !strstr(name, "arrayIPcLm1E")) return;
    type += strlen("11FillFunctorI");
    size_t size = *type == 'N' ? (strstr(type, "N3c108BFloat16E") == type || strstr(type, "N3c104HalfE") == type ? 2 : 0)
                : strchr("bah", *type) ? 1 : strchr("st", *type) ? 2 : strchr("fij", *type) ? 4 : strchr("dlm", *type) ? 8 : 0;
    size_t count = (size_t) * (int *)args[0];
    char *to = *(char **)args[2], zero[8] = {0};
    if (size && !memcmp(args[1], zero, size)) sim_set(to, 0, count * size);
    else if (size && (int64_t)(count * size) <= sim_copy_limit_bytes)
        for (size_t i = 0; i < count; i++) memcpy(to + i * size, args[1], size);
}

void sim_compute(const char *name, void **args) {
    if (strstr(name, "FillFunctor")) fill(name, args);
}

void sim_read_back(const sim_stream *s, void *value, size_t bytes) {
    if (bytes <= 8 && s->last && strstr(s->last, "3cub")) memset(value, 0, bytes); /* how many were found: none */
}
