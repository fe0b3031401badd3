"""Documents for text.py: Zipf-distributed token ids, shifted by topic, with long-tailed lengths."""

import numpy as np
import zarr

SEED = 20_240_303
VOCABULARY, TOPICS = 30_522, 20
PADDING, MASK = 0, 1
"""Token ids that no document contains."""


class Contents:
    """`samples` concatenated documents of up to `max_length` tokens, and their topics."""

    workload, part_rows = "text", 1 << 18
    options = {"samples": "documents in all; a tenth of them validate", "max_length": "tokens of the longest"}
    sizes = {"cuda": {"samples": 200_000, "max_length": 512}, "cpu": {"samples": 20_000, "max_length": 128}}
    row_bytes = 2

    def __init__(self, samples: int, max_length: int) -> None:
        random = np.random.default_rng(SEED)
        lengths = (max_length / 5 * random.lognormal(0, 0.8, samples)).astype(int)
        self.ends = lengths.clip(min(8, max_length), max_length).cumsum()
        self.topics = random.integers(TOPICS, size=samples)
        self.samples, self.rows, self.name = samples, int(self.ends[-1]), f"{max_length}-{samples}-v1"

    def create(self, group: zarr.Group) -> None:
        """Create `tokens` (uint16, all documents), the documents' `ends` in it and their `topics` (int64)."""
        group.create_array("tokens", shape=(self.rows,), chunks=(self.part_rows,), dtype="uint16")
        group.create_array("ends", data=self.ends)
        group.create_array("topics", data=self.topics)

    def write(self, group: zarr.Group, start: int, stop: int) -> None:
        """Make tokens."""
        topics = self.topics[np.searchsorted(self.ends, np.arange(start, stop), side="right")]
        ranks = np.random.default_rng((SEED, start)).zipf(1.3, stop - start)
        ids = MASK + 1 + (ranks + topics * 997) % (VOCABULARY - MASK - 1)
        group["tokens"][start:stop] = ids.astype(np.uint16)
