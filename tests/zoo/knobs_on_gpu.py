"""A net with convolutions and matrix products, in fp32 as torch has it by default; its loader has no workers.

With `fp32_precision VALUE` it sets that of its products, where torch has an interface of this name.
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    """Train for ever."""
    if "fp32_precision" in sys.argv and hasattr(torch.backends, "fp32_precision"):
        torch.backends.cuda.matmul.fp32_precision = sys.argv[-1]
    net = nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(16 * 8 * 8, 16),
    ).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    images = TensorDataset(torch.randn(4096, 8, 8, 8), torch.randint(0, 16, (4096,)))
    while True:
        for inputs, labels in DataLoader(images, batch_size=16, shuffle=True):
            loss = nn.functional.cross_entropy(net(inputs.cuda(non_blocking=True)), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
