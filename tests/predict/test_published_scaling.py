"""Published rates of 1 to 8 GPUs of one host, predicted from one GPU's.

Gradients count 4 bytes a parameter: those of float32 weights are float32 under autocast too.
"""

from typing import NamedTuple

import pytest
from machine.shipped import PROFILES

from tunekit.predict.scaling import link_between, scaled_step
from tunekit.records.scaling import OneGpuStep, ScaledStep

WITHIN = 0.10


class Model(NamedTuple):
    """What the law needs of a model: its trained parameters, and a step on one H100 by precision."""

    parameters: float
    step_s: dict[str, float]


# Lambda's benchmark, github.com/lambdal/deeplearning-benchmark @aa5addb6a53675a649a80036dad548f1c27cbcc4.
# Step times: the batch of pytorch/pytorch-train-bs-fp16.csv and -fp32.csv ("H100 80GB SXM5") over the rate
# where that is in samples (ssd, bert, resnet50); else as the logs of the first host print them, in
# pytorch/results_v2/LambdaOD_8x_Texas_1xH100_80GB_SXM5_192-222-52-149_v2.
MODELS = {
    # 110 and 340 million: Devlin et al. 2019, arXiv 1810.04805, section 3.
    "bert_base_squad": Model(110e6, {"fp16": 320 / 840, "fp32": 172 / 428}),
    "bert_large_squad": Model(340e6, {"fp16": 112 / 308, "fp32": 64 / 142}),
    # "Number of parameters" and "Time" of the logs; a step differs with the length of its sentences.
    "gnmt": Model(159_605_817, {"fp16": 0.156, "fp32": 0.206}),
    # torchvision, ResNet50_Weights.
    "resnet50": Model(25_557_032, {"fp16": 1280 / 2789, "fp32": 640 / 1895}),
    # Counted from Detection/SSD/ssd/model.py of NVIDIA/DeepLearningExamples: ResNet-50 to conv4, 81 classes.
    "ssd": Model(22_894_902, {"fp16": 448 / 866, "fp32": 256 / 586}),
    # Counted from SpeechSynthesis/Tacotron2/tacotron2/model.py there; train_iter_time.
    "tacotron2": Model(28_193_153, {"fp16": 1.74, "fp32": 1.86}),
    # Counted from SpeechSynthesis/Tacotron2/waveglow/model.py there, 512 channels; train_iter_time.
    "waveglow": Model(268e6, {"fp16": 0.814, "fp32": 0.561}),
}

COUNTS = (1, 2, 4, 8)

# pytorch/pytorch-train-throughput-v2-fp16.csv and -fp32.csv: rates of 1, 2, 4 and 8 GPUs of the hosts
# LambdaOD_8x_Texas 192-222-52-149 and 192-222-52-89, eight H100 80GB SXM5 each.
RATES = {
    ("bert_base_squad", "fp16"): ((840, 1648, 3200, 9320), (836, 1602, 3248, 9320)),
    ("bert_base_squad", "fp32"): ((428, 842, 1654, 3193), (424, 817, 1628, 3283)),
    ("bert_large_squad", "fp16"): ((308, 600, 1219, 2340), (308, 601, 1177, 2289)),
    ("bert_large_squad", "fp32"): ((142, 277, 547, 1067), (141, 278, 548, 1081)),
    ("gnmt", "fp16"): ((471881, 918407, 1823514, 3724477), (472294, 920701, 1822231, 3720858)),
    ("gnmt", "fp32"): ((246866, 484887, 954196, 1981346), (247059, 486659, 950273, 1978375)),
    ("resnet50", "fp16"): ((2789, 5520, 11035, 22059), (2788, 5521, 11040, 22067)),
    ("resnet50", "fp32"): ((1895, 3744, 7490, 14969), (1894, 3746, 7487, 14970)),
    ("ssd", "fp16"): ((866, 1721, 3422, 6763), (866, 1723, 3420, 6771)),
    ("ssd", "fp32"): ((586, 1165, 2324, 4632), (586, 1166, 2323, 4632)),
    ("tacotron2", "fp16"): ((82939, 145932, 294831, 494127), (83904, 143994, 293970, 462310)),
    ("tacotron2", "fp32"): ((80478, 161006, 299159, 538636), (81258, 160700, 316259, 555226)),
    ("waveglow", "fp16"): ((470986, 923782, 1824485, 3665963), (471373, 925039, 1824014, 3666750)),
    ("waveglow", "fp32"): ((455549, 886182, 1760600, 3502767), (455082, 884280, 1764005, 3503652)),
}

MISCOUNTED = (
    "139% of linear. The logs of 8 GPUs print 2.75 steps/s, those of one GPU up to 2.80: the rate that they "
    "report at the end is not that of the steps"
)
PADDED = (
    "a batch is padded to its longest utterance, so that ranks differ in every step; the table does not say "
    "by how much, and its epochs have one or two steps"
)
NOT_EXPLAINED = {
    ("bert_base_squad", "fp16", 8): MISCOUNTED,
    ("tacotron2", "fp16", 2): PADDED,
    ("tacotron2", "fp16", 4): PADDED,
    ("tacotron2", "fp16", 8): PADDED,
    ("tacotron2", "fp32", 8): PADDED,
}
"""Rows of both hosts that the law misses by more than a tenth, and why."""


def predicted(model: str, precision: str, gpus: int) -> ScaledStep:
    """The step on some H100s of one host, by one GPU's step and the model's parameters alone."""
    facts = MODELS[model]
    link = link_between(PROFILES["h100-sxm"], gpus)
    assert link is not None
    one = OneGpuStep(step_s=facts.step_s[precision], gradients_bytes=round(4 * facts.parameters))
    return scaled_step(one, gpus, link)


def h100_rows() -> list[tuple[str, str, int, float]]:
    """Every row of more than one GPU with its measured efficiency."""
    return [
        (model, precision, gpus, rate / (gpus * host[0]))
        for (model, precision), hosts in RATES.items()
        for host in hosts
        for gpus, rate in zip(COUNTS[1:], host[1:], strict=True)
    ]


def is_held(model: str, precision: str, gpus: int, measured: float) -> bool:
    return predicted(model, precision, gpus).efficiency.value == pytest.approx(measured, rel=WITHIN)


def test_74_of_84_rows_of_an_h100_host_are_predicted_within_a_tenth():
    rows = h100_rows()
    missed = [row for row in rows if not is_held(*row)]
    assert (len(rows), len(rows) - len(missed)) == (84, 74)
    assert {row[:3] for row in missed} == set(NOT_EXPLAINED)


def test_rows_that_are_explained_lie_in_the_predicted_range_or_at_most_a_hundredth_above():
    for model, precision, gpus, measured in h100_rows():
        if (model, precision, gpus) not in NOT_EXPLAINED:
            ends = predicted(model, precision, gpus).efficiency
            assert ends.low <= measured <= 1.01 * ends.high, (model, precision, gpus)


# NVIDIA/DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5/README.md
# @291f0d02e815b148fa5c2b81bf07aa3552142895, "Training performance": images/s of 1 and of 8 GPUs. The table
# calls it strong scaling, but each GPU keeps its batch. Its rows in mixed precision lose an eighth or more,
# not by gradients but by the loaders of the host (130 images/s a worker explain it), which no row tells.
# Batches of each GPU: PyTorch/Classification/ConvNets/configs.yml
# @097c7ff917b7c56246590b1246a8f5bd8957c534, resnet50 on DGXA100 and DGX1V: data_backend pytorch.
class Dgx(NamedTuple):
    """A row of NVIDIA's tables."""

    gpu: str
    batch: int
    one: float
    eight: float


DGX = {
    "A100 80 GB, TF32": Dgx("a100-sxm-80", 256, 938, 7248),
    "V100 16 GB, FP32": Dgx("v100-sxm-16", 112, 367, 2855),
    "V100 32 GB, FP32": Dgx("v100-sxm-32", 112, 356, 2766),
}


def dgx_step(row: Dgx) -> ScaledStep:
    """The step on eight GPUs, with loaders that are not in the way."""
    one = OneGpuStep(step_s=row.batch / row.one, gradients_bytes=round(4 * MODELS["resnet50"].parameters))
    link = link_between(PROFILES[row.gpu], 8)
    assert link is not None
    return scaled_step(one, 8, link)


@pytest.mark.parametrize("name", DGX)
def test_eight_gpus_in_full_precision_scale_as_the_gradients_say(name: str):
    row = DGX[name]
    ends = dgx_step(row).speedup
    assert ends.value == pytest.approx(row.eight / row.one, rel=0.04)
    assert ends.low <= row.eight / row.one <= ends.high
