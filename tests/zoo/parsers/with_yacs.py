"""yacs, as detectron2 is configured: pairs of key and value after the flags."""

import argparse

from small_loop import train
from yacs.config import CfgNode

config = CfgNode({"SOLVER": {"IMS_PER_BATCH": 16, "BASE_LR": 0.05}, "DATALOADER": {"NUM_WORKERS": 0}})
parser = argparse.ArgumentParser()
parser.add_argument("opts", nargs=argparse.REMAINDER)
config.merge_from_list(parser.parse_args().opts)
train(config.SOLVER.IMS_PER_BATCH, config.DATALOADER.NUM_WORKERS, config.SOLVER.BASE_LR)
