"""A script whose workers are spawned, without a guard: each of them would run it again."""

import torch.multiprocessing
from loop_shapes import Rows, epochs
from torch.utils.data import DataLoader

torch.multiprocessing.set_start_method("spawn", force=True)
epochs(DataLoader(Rows(1600), batch_size=16), train_s=0.002)
