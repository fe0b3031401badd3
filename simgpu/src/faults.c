/* What goes wrong on purpose, and what is said on stderr. */
#define _GNU_SOURCE
#include "core.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const char *format, va_list rest) {
    char line[1024];
    int n = snprintf(line, sizeof line, "simgpu[%d]: ", (int)getpid());
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, rest);
    n = (int)strlen(line);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0) return; /* in one piece, whatever else writes there */
}

void sim_say(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    say(format, rest);
    va_end(rest);
}

void sim_note(const char *format, ...) {
    static int wanted = -1;
    if (wanted < 0) wanted = getenv("SIMGPU_LOG") != NULL;
    if (!wanted) return;
    va_list rest;
    va_start(rest, format);
    say(format, rest);
    va_end(rest);
}

int sim_missing(const char *name, int code) {
    enum { MOST = 4096 };
    static const char *said[MOST];
    static int count;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    bool known = false;
    for (int i = 0; i < count && !known; i++) known = !strcmp(said[i], name);
    if (!known && count < MOST) said[count++] = name;
    pthread_mutex_unlock(&lock);
    if (!known) sim_say("%s is not simulated and answers %d, not supported", name, code);
    return code;
}

/* ---- SIMGPU_FAIL=NAME:CODE[@N[+]],NAME:slow=SECONDS ---- */

typedef struct { char name[80]; int code, from, calls; bool later_too; double wait_s; } fault;
enum { FAULTS = 32 };
static fault faults[FAULTS];
static int fault_count;

static void refuse(const char *one) {
    sim_say("SIMGPU_FAIL has NAME:CODE[@N[+]] or NAME:slow=SECONDS, up to %d with commas between, got '%s'",
            (int)FAULTS, one);
    exit(EXIT_FAILURE);
}

static fault read_fault(const char *one) {
    fault f = {.from = 1, .later_too = true};
    const char *what = strchr(one, ':');
    if (!what || what == one || what - one >= (int)sizeof f.name) refuse(one);
    memcpy(f.name, one, (size_t)(what++ - one));
    bool slow = !strncmp(what, "slow=", 5);
    if (slow) what += 5;
    char *rest = NULL;
    if (slow) f.wait_s = strtod(what, &rest);
    else f.code = (int)strtol(what, &rest, 10);
    if (rest == what || (slow ? !(f.wait_s > 0) : !f.code)) refuse(one);
    if (*rest == '@') {
        f.from = (int)strtol(rest + 1, &rest, 10), f.later_too = *rest == '+';
        if (f.from < 1) refuse(one);
        rest += f.later_too;
    }
    if (*rest) refuse(one);
    return f;
}

static void read_faults(void) {
    const char *text = getenv("SIMGPU_FAIL");
    if (!text) return;
    char *words = strdup(text), *rest;
    for (char *one = strtok_r(words, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        if (fault_count == FAULTS) refuse(one);
        faults[fault_count++] = read_fault(one);
    }
    free(words);
}

bool sim_fails(const char *name, int *code) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_faults);
    for (int i = 0; i < fault_count; i++) {
        fault *f = &faults[i];
        if (strcmp(f->name, name)) continue;
        int call = __atomic_add_fetch(&f->calls, 1, __ATOMIC_RELAXED);
        if (call != f->from && !(f->later_too && call > f->from)) continue;
        if (f->wait_s > 0) {
            usleep((useconds_t)(1e6 * f->wait_s));
            continue;
        }
        *code = f->code;
        return true;
    }
    return false;
}

int sim_xid(int index) {
    const sim_control *controls = sim_state()->control;
    int own = (int)controls[index].xid;
    return own ? own : (int)controls[sim_gpu_of(index)].xid;
}
