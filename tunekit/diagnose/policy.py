"""Thresholds of the checks, by room: the unit is in the name, the reason below it."""

from tunekit.units import KIB, MIB

# --- where the time of a step goes, and what holds it back ---

CLEAR_STALL_SHARE = 0.10
"""Share of the step; fresh processes of one config differ by as much on a shared machine."""
SMALL_STALL = 0.25
"""Share of the rest of the step: a shorter stall slows the loop down, but is not its bottleneck."""
DRAINED_SHARE = 0.5
"""The device runs dry in most batches."""
CLEAR_IDLE_SHARE = 0.10
"""A device that idles less, data stall aside, is held back by its work, however often it runs dry."""
LAUNCHING_SHARE = 0.5
"""Host share above which a loop counts as launch-bound; a host that mostly waits is not the bottleneck."""
COPIES_SHARE = 0.25
"""Of the step in which only copies run: beyond it, and beyond the stall, copies are the bottleneck."""
BALANCED = 0.10
"""Halves that differ less are taken for equal: making one of them free brings no more than the other."""
MISSED_SHARE = 0.05
"""By which a predicted limit may lie below the measured rate: fresh processes differ by as much."""
UNSETTLED_FROM = 2.0
"""Where a rate's high end is so many times its low end, what holds the loop back can't be said."""
EPOCHS_SHARE = 0.25
"""Of an epoch at its boundary: beyond it, and beyond the stall, the boundary is the bottleneck."""
ALL_CPUS_SHARE = 0.9
"""CPUs that work this much have nothing to give."""
MAX_CPUS_SHARE = 0.75
"""Of the CPUs: a trial that uses as much and waits for more waits for its own processes, mostly."""
COMPUTES_SHARE = 0.7
"""Of making a batch on a CPU: the rest is too little for what it waits for to matter."""
WAITS_SHARE = 0.4
"""Of making a batch on a CPU: below it, making is mostly waiting, and more processes can wait at once."""
MOSTLY = 0.5
"""Of the time off the CPU: what takes as much of it is what making a batch waits for."""
FROM_STORAGE_BYTES_PER_S = 1 * MIB
"""Less is logs and modules, not a data set."""
MIN_SLACK = 0.05
"""Fresh processes, and isolated rates after the window, differ by this much without a cause."""

# --- workers to suggest ---

FIRST_WORKERS = 4
"""Suggested where no batch was timed: hides loading that takes up to four times as long as the step."""
SAME_LOADER_RATE = 0.05
"""Share by which fewer workers may be slower than more, where the fewer are advised."""
MAX_WAITING_WORKERS = 16
"""Each still takes memory and a process."""

# --- waiting for data or a CPU ---

STARVED_SHARE = 0.10
"""Of a step: the training's own thread waits for a CPU so long only beside others that want it."""
UNPICKLES_SHARE = 0.5
FELT_SHARE = 0.05
"""Of the step: a smaller gain is lost in the noise."""
COSTLY_SHARE = 0.03
"""Of the epoch; less is within the noise of a good machine."""
ONE_BOUNDARY = 0.5
"""Of what a boundary took that was timed alone: the next may take half of it."""
SURE = 0.90
"""Of a range of both ends: 95% of what boundaries cost lies above its lower end."""

# --- work of the device ---

ROOM_SHARE = 0.45
"""Twice as much, which twice the batch never needs, is still below the 95% that any tier allows."""
RARE_PER_BATCH = 0.1
"""A wait in every tenth batch or less often lets the host get ahead in between."""
BUSY_PERCENT = 80.0
"""NVML counts a GPU as busy while any kernel runs: a loop that keeps it fed comes close to 100."""
FALL_OF_CLOCK = 0.02
"""Between a window's first and last third: clocks at rest move by a step of 15 MHz, 1%."""
RISE_C = 3.0
"""Between the same: a sensor's step is 1 C."""

# --- how far figures can be trusted ---

DRIFT = 0.05
"""A loop that changes less within its window is steady enough for its rate."""
CACHED_SHARE = 0.8
"""Of what is read: with less, the figures already hold a good deal of the storage's own speed."""
READS_BYTES_PER_S = 10 * MIB
"""Slower reads are served in time by any storage."""
FITS_SHARE = 0.5
"""Of the RAM limit: what an epoch reads below it stays in the page cache beside the training itself."""

GROWS_BYTES = 64 * MIB
"""In an epoch, or in 1,000 batches: less are caches that fill."""
FROZEN_SHARE = 0.05
"""Of the parameters; less are embeddings of positions and the like."""
WARMED_RATIO = 2.0
"""Of a loader's time per batch before and after; where CPUs are shared it varies less."""

# --- GPUs before training ---

NARROW_LANES = 4
TAKEN_SHARE = 0.05
"""Of the memory; the driver's own share of an idle GPU is below it."""
LOW_POWER_SHARE = 0.85

# --- CPUs, memory and /dev/shm ---

SMALL_SHM_BYTES = 512 * MIB
"""One batch of 256 ImageNet pictures in fp32 is 147 MiB, and a queue holds several."""
FULL_SHM_SHARE = 0.5
LOW_RAM_SHARE = 0.2
BUSY_SHARE = 0.5
BUSY_LOAD = 1.5
"""One process that has just ended, such as a training of tunekit's own, still makes a load of about 1."""
USUAL_OPEN_FILES = 1024
MANY_WORKERS = 8
USUAL_SHM_GIB = 8
"""What a container is usually given when Docker's default is too small."""

# --- storage ---

SLOW_MB_PER_S = 100.0
"""About 900 ImageNet pictures of 110 kB a second."""
SHORT_READ_S = 30.0
"""A single wait this long, for files that stay in memory afterwards, is no problem."""
SMALL_FILE_BYTES = 128 * KIB
TINY_FILE_BYTES = 64 * KIB
"""Below it a low rate is what opening the files costs, on the fastest disk too."""
MANY_FILES = 10_000
CACHEABLE_SHARE = 0.8
"""Of the RAM limit; the rest is needed for training itself."""

# --- a whole search ---

UNSTEADY_RATIO = 1.5
"""Fresh processes of one config differ by at most 1.1x on a shared machine without other load."""

# --- several processes ---

FELT_OF_ITERATION = 0.10
"""Share of an iteration from which on a part of it is worth a finding."""
SAME_EPOCH = 0.9
"""An epoch of each process that is this share of one process's own goes through all samples."""

# --- machines to rent ---

MAX_NAMED = 4
"""Machines that a finding names before it only counts them."""

# --- two runs side by side ---

ROUNDS = 3
"""Fresh processes of each config that usually show a difference on a quiet machine."""
