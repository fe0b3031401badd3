"""Data classes parsed by transformers, with the names of its TrainingArguments."""

from dataclasses import dataclass, field

from small_loop import train
from transformers import HfArgumentParser


@dataclass
class Arguments:
    """As in run_clm."""

    per_device_train_batch_size: int = 16
    per_device_eval_batch_size: int = 8
    dataloader_num_workers: int = 0
    learning_rate: float = field(default=0.05)
    bf16: bool = False
    fp16: bool = False
    hub_token: str = "hf_12345"


(arguments,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
amp = "bfloat16" if arguments.bf16 else "float16" if arguments.fp16 else None
train(arguments.per_device_train_batch_size, arguments.dataloader_num_workers, arguments.learning_rate, amp)
