"""Trains with objects that are out of the ordinary, or that answer nobody but torch and this script.

Nothing of it stands in the way of the training itself.
"""

import argparse
import sys

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler

STEPS = 5000
SAMPLES = 640


def refuse_others():
    """Raise where neither torch nor this script asks."""
    name = sys._getframe(2).f_globals["__name__"]
    if not (name == __name__ or name.startswith("torch")):
        raise RuntimeError("this is no business of yours")


class Secretive:
    """What a batch carries along: it answers no question, not even for its class."""

    def __getattribute__(self, name):
        raise RuntimeError("this is no business of yours")

    def __reduce__(self):
        return Secretive, ()

    def __deepcopy__(self, memo):
        return self


class Images(Dataset):
    def __init__(self, shape, extra=None):
        self._images, self._labels = torch.randn(SAMPLES, *shape), torch.randint(0, 10, (SAMPLES,))
        self._extra = extra

    def __len__(self):
        return SAMPLES

    def __getitem__(self, number):
        return self._images[number], self._labels[number]

    def collate(self, samples):
        images, labels = zip(*samples, strict=True)
        batch = [torch.stack(images), torch.stack(labels)]
        return batch if self._extra is None else [*batch, self._extra]


class Sampler(BatchSampler):
    """Answers nobody who asks whether its last batch is left out, once it is made."""

    @property
    def drop_last(self):
        refuse_others()
        return self._drop_last

    @drop_last.setter
    def drop_last(self, value):
        self._drop_last = value


class Optimizer(torch.optim.SGD):
    """Answers nobody for what it steps, or for its state."""

    refuses = ""

    @property
    def param_groups(self):
        if self.refuses == "groups":
            refuse_others()
        return self._groups

    @param_groups.setter
    def param_groups(self, value):
        self._groups = value

    @property
    def state(self):
        if self.refuses == "state":
            refuse_others()
        return self._state

    @state.setter
    def state(self, value):
        self._state = value


class Scale(torch.Tensor):
    """A parameter of a kind of its own, which does not tell its size or its order to others."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ in ("numel", "dim", "is_contiguous", "to", "untyped_storage", "element_size"):
            raise TypeError(f"{func.__name__} is not for this kind")
        return super().__torch_function__(func, types, args, kwargs or {})


class Weight(torch.Tensor):
    """A parameter that stays as it is."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ == "to":
            raise TypeError("this weight stays as it is")
        return super().__torch_function__(func, types, args, kwargs or {})


class Outputs(list):
    """A list that is made in a way of its own."""

    def __init__(self, *, of):
        super().__init__(of)


class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.is_made = kind, False
        if kind.startswith("lazy"):
            first = nn.LazyConv2d(8, 3, padding=1), nn.LazyBatchNorm2d()
            self.layers = nn.Sequential(*first, nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
        else:
            first = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.layers = nn.Sequential(*first, nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
        if kind == "refuses-layout":
            weight = self.layers[0].weight.detach().as_subclass(Weight)
            self.layers[0].weight = nn.Parameter(weight)
        if kind == "lazy-unused":
            self.unused = nn.LazyConv2d(4, 3)
        if kind == "odd":
            self.volume = nn.Conv3d(1, 2, 1)
            self.placeholder = nn.Parameter(torch.empty(4, 3, 2, 2, device="meta"), requires_grad=False)
            self.register_buffer("sparse", torch.eye(4).reshape(1, 1, 4, 4).to_sparse())
            images = torch.ones(1, 3, 2, 2)
            self.register_buffer("quantised", torch.quantize_per_tensor(images, 0.1, 0, torch.qint8))
            self.register_buffer("ragged", torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
            self.words = nn.Embedding(10, 4, sparse=True)
            self.scale = nn.Parameter(torch.ones(1).as_subclass(Scale), requires_grad=False)

    def named_parameters(self, *args, **kwargs):
        if self.kind == "refuses-parameters" and self.is_made:
            raise RuntimeError("this is no business of yours")
        return super().named_parameters(*args, **kwargs)

    def forward(self, images):
        outputs = self.layers(images)
        if self.kind == "odd":
            ones = torch.ones(1, 1, 1, 1, 1)
            outputs = outputs + self.volume(ones).mean() + self.words(torch.tensor([1])).mean()
            return Outputs(of=[outputs])
        return [outputs]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", default="plain")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    kind = options.kind
    torch.manual_seed(0)
    model = Net(kind)
    if kind == "lazy-early":  # its shapes are known before there is an optimizer
        model(torch.zeros(2, 3, 8, 8))
    optimizer = Optimizer(model.parameters(), lr=0.01, momentum=0.9)
    optimizer.refuses = kind.partition("-")[2] if kind.startswith("refuses") else ""
    if kind == "odd":
        optimizer.param_groups[0]["initial_lr"] = torch.empty((), device="meta")
    model.is_made, model.optimizer = True, optimizer  # which lives as long as its model
    dataset = Images((3, 8, 8), Secretive() if kind == "odd" else None)
    if kind == "refuses-sampler":
        sampler = Sampler(SequentialSampler(dataset), 16, False)
        loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=dataset.collate)
    else:
        loader = DataLoader(dataset, batch_size=16, collate_fn=dataset.collate)
    step = 0
    while step < options.steps:
        for images, labels, *_ in loader:
            (outputs,) = model(images)
            loss = nn.functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == options.steps:
                break
    print(f"trained {step} steps, loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
