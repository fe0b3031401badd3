"""Patient records for records.py: visits with diagnosis codes and lab values, 2 to 64 per patient."""

import numpy as np
import zarr

SEED = 20_240_304
CODES, CODES_PER_VISIT, LABS = 2_000, 16, 3


class Contents:
    """The concatenated visits of `samples` patients, and which patients returned within a month."""

    workload, part_rows = "records", 1 << 16
    options = {"samples": "patients in all; a tenth of them validate"}
    sizes = {"cuda": {"samples": 200_000}, "cpu": {"samples": 20_000}}
    row_bytes = 2 * (1 + CODES_PER_VISIT + LABS)

    def __init__(self, samples: int) -> None:
        random = np.random.default_rng(SEED)
        self.ends = (12 * random.lognormal(0, 0.8, samples)).astype(int).clip(2, 64).cumsum()
        self.returned = random.random(samples) < 0.3
        self.samples, self.rows, self.name = samples, int(self.ends[-1]), f"{samples}-v1"

    def create(self, group: zarr.Group) -> None:
        """Create `visits` (int16: days since the last, 16 codes or 0, 3 values), `ends` and `returned`."""
        columns = 1 + CODES_PER_VISIT + LABS
        group.create_array(
            "visits", shape=(self.rows, columns), chunks=(self.part_rows, columns), dtype="int16"
        )
        group.create_array("ends", data=self.ends)
        group.create_array("returned", data=self.returned.astype(np.float32))

    def write(self, group: zarr.Group, start: int, stop: int) -> None:
        """Make visits: patients who returned have shorter gaps and different codes."""
        random, count = np.random.default_rng((SEED, start)), stop - start
        returned = self.returned[np.searchsorted(self.ends, np.arange(start, stop), side="right")]
        days = random.exponential(np.where(returned, 40, 90)).clip(1, 3_000)
        codes = 1 + (random.zipf(1.4, (count, CODES_PER_VISIT)) + 97 * returned[:, None]) % (CODES - 1)
        codes[np.arange(CODES_PER_VISIT) >= random.integers(1, CODES_PER_VISIT + 1, (count, 1))] = 0
        labs = random.normal(1_000, 150, (count, LABS))
        group["visits"][start:stop] = np.column_stack([days, codes, labs]).astype(np.int16)
