"""Thresholds of the checks by subject, each with its unit in the name and its reason below."""

from tunekit.units import KIB, MIB

# --- where the time of a step goes, and what limits it ---

CLEAR_STALL_SHARE = 0.10
"""Share of the step; on a shared machine, fresh processes of one config differ by this much."""
SMALL_STALL = 0.25
"""Share of the rest of the step; a shorter stall slows the loop down, but is not its bottleneck."""
DRAINED_SHARE = 0.5
"""Share of batches; above it the device runs out of work in most of them."""
CLEAR_IDLE_SHARE = 0.10
"""Share of the step, without data stall; a device that idles less is limited by its own work."""
LAUNCHING_SHARE = 0.5
"""Host share above which a loop counts as launch-bound; a host that mostly waits is not the bottleneck."""
COPIES_SHARE = 0.25
"""Share of the step in which only copies run; above it, and above the stall, copies are the bottleneck."""
BALANCED = 0.10
"""Relative difference below which loader and training count as equal: speeding up one gains little."""
MISSED_SHARE = 0.05
"""How far a predicted limit may be below the measured rate: fresh processes differ by this much."""
UNSETTLED_FROM = 2.0
"""Ratio of a rate's upper to its lower bound from which on the bottleneck can't be determined."""
EPOCHS_SHARE = 0.25
"""Share of an epoch at its boundary; above it, and above the stall, the boundary is the bottleneck."""
ALL_CPUS_SHARE = 0.9
"""Share of the CPUs in use from which on there is no spare CPU time."""
MAX_CPUS_SHARE = 0.75
"""Share of the CPUs that a trial uses, above which it mostly waits for its own processes to free one."""
COMPUTES_SHARE = 0.7
"""Share of batch-making time on a CPU; above it the rest is too short for its cause to matter."""
WAITS_SHARE = 0.4
"""Share of batch-making time on a CPU; below it making is mostly waiting, and more processes can help."""
MOSTLY = 0.5
"""Share of the time off the CPU from which on one cause explains the wait."""
FROM_STORAGE_BYTES_PER_S = 1 * MIB
"""Lower rates are reads of logs and modules, not of a data set."""
MIN_SLACK = 0.05
"""Random difference between fresh processes, and to isolated rates measured after the window."""

# --- workers to suggest ---

FIRST_WORKERS = 4
"""Suggested if no batch was timed: four workers hide loading that takes up to four times the step."""
SAME_LOADER_RATE = 0.05
"""Relative slowdown up to which fewer workers are recommended over more."""
MAX_WAITING_WORKERS = 16
"""Maximum number of workers to suggest if they mostly wait: each still takes memory and a process."""

# --- waiting for data or a CPU ---

STARVED_SHARE = 0.10
"""Share of a step; the training thread waits this long for a CPU only if other threads compete for it."""
UNPICKLES_SHARE = 0.5
FELT_SHARE = 0.05
"""Share of the step; a smaller gain is lost in the noise."""
COSTLY_SHARE = 0.03
"""Share of the epoch; less is within the noise of a good machine."""
ONE_BOUNDARY = 0.5
"""Share of a single timed boundary that is assumed certain: the next may take half as long."""
SURE = 0.90
"""Two-sided confidence level, so that the cost of a boundary is above the lower bound with 95% confidence."""

# --- work of the device ---

ROOM_SHARE = 0.45
"""Share of memory in use that allows doubling the batch: twice as much is below the 95% of any tier."""
RARE_PER_BATCH = 0.1
"""Syncs per batch; with one in ten batches or fewer the host gets ahead in between."""
BUSY_PERCENT = 80.0
"""NVML counts a GPU as busy while any kernel runs: a loop that keeps it fed comes close to 100."""
FALL_OF_CLOCK = 0.02
"""Relative fall from a window's first to its last third; a steady clock changes by one step of 15 MHz, 1%."""
RISE_C = 3.0
"""Rise from a window's first to its last third; a sensor's step is 1 C."""

# --- how far figures can be trusted ---

DRIFT = 0.05
"""Relative change within the window; with less, the loop's rate is steady enough."""
CACHED_SHARE = 0.8
"""Share of reads served by the page cache; with less, the figures largely reflect the storage's speed."""
READS_BYTES_PER_S = 10 * MIB
"""Any storage is fast enough for slower reads."""
FITS_SHARE = 0.5
"""Share of the RAM limit; an epoch that reads less stays in the page cache next to the training's memory."""

GROWS_BYTES = 64 * MIB
"""Growth in an epoch, or in 1,000 batches; caches that fill up grow by less."""
FROZEN_SHARE = 0.05
"""Share of the parameters; position embeddings and the like are less."""
WARMED_RATIO = 2.0
"""Ratio of a loader's times per batch before and after caching; shared CPUs vary it by less."""

# --- GPUs before training ---

NARROW_LANES = 4
TAKEN_SHARE = 0.05
"""Share of the memory in use; on an idle GPU, the driver uses less."""
LOW_POWER_SHARE = 0.85

# --- CPUs, memory and /dev/shm ---

SMALL_SHM_BYTES = 512 * MIB
"""One batch of 256 ImageNet images in fp32 is 147 MiB, and a queue holds several."""
FULL_SHM_SHARE = 0.5
LOW_RAM_SHARE = 0.2
BUSY_SHARE = 0.5
BUSY_LOAD = 1.5
"""Load average; a process that has just ended, such as one of tunekit's trials, still adds about 1."""
USUAL_OPEN_FILES = 1024
MANY_WORKERS = 8
USUAL_SHM_GIB = 8
"""The usual size for a container when Docker's default is too small."""

# --- storage ---

SLOW_MB_PER_S = 100.0
"""About 900 ImageNet images of 110 kB per second."""
SHORT_READ_S = 30.0
"""A single wait of this length is acceptable if the files stay in memory afterwards."""
SMALL_FILE_BYTES = 128 * KIB
TINY_FILE_BYTES = 64 * KIB
"""Below this size, opening the files dominates, even on the fastest disk."""
MANY_FILES = 10_000
CACHEABLE_SHARE = 0.8
"""Share of the RAM limit; the rest is needed for training itself."""

# --- layout of a data set ---

READ_AMPLIFICATION = 8.0
"""Decoded bytes per byte of a sample; below it decoding the rest costs less than a read of zarr itself."""
SMALL_ARRAY_BYTES = 16 * MIB
"""A smaller array, such as labels, is usually loaded whole."""
SLOW_DECODE_MB_PER_S = 200.0
"""zstd decodes float32 of real signals at 300 to 1,000 MB/s, lz4 above that."""
DECODED_CHUNK_BYTES = 256 * KIB
"""In smaller chunks, zarr itself takes more time than its codec."""
SPREAD_CHUNKS = 8
"""Chunks per sample from which on reading them takes several times one read."""
PLACE_GAIN = 1.1
"""Speedup from which on moving a data set is worth it."""
VRAM_SHARE = 0.5
"""Share of a GPU's memory; model and activations need the rest."""

# --- a whole search ---

UNSTEADY_RATIO = 1.5
"""Fresh processes of one config differ by at most 1.1x on a shared machine without other load."""

# --- several processes ---

FELT_OF_ITERATION = 0.10
"""Share of an iteration from which on a part is worth a finding."""
SAME_EPOCH = 0.9
"""If each process's epoch is longer than this share of a single process's, each goes through all samples."""

# --- a recorded training ---

SETTLING_SHARE = 0.15
"""Share of the recording that is left out at its start: compilation, caches and queues that fill."""
SETTLING_S = 10.0
"""The shortest time that is left out."""
BLOCKS = 24
"""Stretches that a recording is divided into, at least: enough to tell a change, even in its last third."""
CHANGE_P = 0.01
"""Probability by chance; with the size of the change below, none is named in clean runs."""
SLOWER = 0.20
"""Relative rise of a step's time; a shared machine varies by less for most of its time."""
WAITS_MORE_SHARE = 0.10
"""Rise of the wait for data, as a share of the iteration before."""
LONG_WAITS_SHARE = 0.25
"""Share of the time since the first step; with a slow start of an epoch now and then it is less."""
FIRST_WAITS_S = 60.0
"""Before, the wait may be that for the first batches."""
STAYS_SHARE = 0.5
"""Share of the rise that the last quarter of the time after it must keep: a burst is over by then."""
OTHERS_CPUS = 0.3
"""CPUs that other programs took on top when the training became slower; from here on it is their doing."""
CREEP_SHARE = 0.02
"""Share of the memory in use that has to be added, besides GROWS_BYTES; the fluctuation of a full heap."""
CREEP_PARTS = 6
"""Parts of the time that each have to add memory: by chance they do in one of 720 recordings."""
CREEPS_ON = 0.3
"""What the last part adds, over the mean; a cache that fills up levels off."""
SOON_H = 48.0
"""Hours until memory is full from which on a leak ends the training before it is noticed."""
CHECKPOINTS_SHARE = 0.05
"""Share of the time; a checkpoint is worth some."""

# --- two runs side by side ---

ROUNDS = 3
"""Fresh processes per config that usually suffice to show a difference on a quiet machine."""
