/* CUDA's errors as the runtime and the driver share them: their words, and those that a process does not get rid of. */
#pragma once

/* What stands in the way of a call: the error that its context already has, a lost device, no device at all, or a fault
   that SIMGPU_FAIL asks of this call. 0: nothing, go on. */
int sim_refuses(const char *call);
/* The current device's context, made at its first use; its fault goes by the name of cuDevicePrimaryCtxRetain. */
int sim_enter_context(void);
int sim_sticky_error(void); /* a broken context answers this to everything; 0: sound */

const char *sim_error_name(int code, int of_driver); /* NULL: no such error */
const char *sim_error_text(int code);
