"""A recurrent net on spectrograms that are made from waves as they are loaded.

python benchmarks/live_targets/speech_frames.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 8
CLASSES = 12


class Waves(Dataset):
    """Half a second of sound each, turned into frames of a spectrogram."""

    def __init__(self) -> None:
        self._window = torch.hann_window(512)

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        wave = torch.randn(16000, generator=torch.Generator().manual_seed(place))
        frames = torch.stft(wave, 512, 128, window=self._window, return_complex=True).abs()
        return frames[:64, :64].log1p().T.contiguous(), place % CLASSES


class Recogniser(nn.Module):
    """A GRU over frames, and a head on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(64, 96, batch_first=True)
        self.head = nn.Linear(96, CLASSES)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Return logits for (batch, time, 64) frames."""
        return self.head(self.recurrent(frames)[0][:, -1])


def make_dataset() -> Dataset:
    """Return the training data."""
    return Waves()


def make_model() -> nn.Module:
    """Return the untrained model."""
    return Recogniser()


def loss_of(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss of a batch."""
    frames, labels = batch
    return nn.functional.cross_entropy(model(frames), labels)


def main() -> None:
    """Train."""
    loader = DataLoader(make_dataset(), batch_size=BATCH_SIZE, shuffle=True)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(1000):
        for batch in loader:
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
