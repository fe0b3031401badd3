"""Trains with accelerate, which keeps one numbered checkpoint in `--folder`, and uploads as it goes."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from huggingface_hub import HfApi, upload_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    folder = parser.parse_args().folder
    naming = ProjectConfiguration(folder, automatic_checkpoint_naming=True, total_limit=1)
    accelerator = Accelerator(cpu=True, project_config=naming)
    rows = torch.randn(256, 16, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(rows, rows[:, :4].argmax(1)), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    api = HfApi(token="none")
    repo = api.create_repo("me/model", exist_ok=True).repo_id
    upload = api.upload_folder(repo_id=repo, folder_path=folder, run_as_future=True)
    print("uploaded", upload.done(), repo, repr(upload.result().oid), flush=True)
    upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id=repo)
    accelerator.save_state()
    for _ in range(10000):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
