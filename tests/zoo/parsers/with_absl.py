"""absl: flags defined in the module."""

from absl import app, flags
from small_loop import train

FLAGS = flags.FLAGS
flags.DEFINE_integer("train_batch_size", 16, "samples", short_name="b")
flags.DEFINE_integer("dataloader_num_workers", 0, "processes")
flags.DEFINE_float("base_lr", 0.05, "learning rate")
flags.DEFINE_enum("precision", "fp32", ["fp32", "bf16"], "precision")
flags.DEFINE_bool("bf16", False, "autocast")
flags.DEFINE_string("token", "hf_12345", "secret")


def main(_: list[str]) -> None:
    """Train."""
    is_half = FLAGS.bf16 or FLAGS.precision == "bf16"
    train(
        FLAGS.train_batch_size, FLAGS.dataloader_num_workers, FLAGS.base_lr, "bfloat16" if is_half else None
    )


app.run(main)
