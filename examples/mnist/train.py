# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on a folder of images by class. An ordinary PyTorch script: it reads files.

Usage: train.py DATA_FOLDER EPOCHS      DATA_FOLDER holds train/CLASS/*.png and test/CLASS/*.png
"""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

BATCH = 64
WORKERS = 2


def make_loader(folder, shuffle):
    steps = transforms.Compose([transforms.Grayscale(), transforms.ToTensor(),
                                transforms.Normalize(0.13, 0.31)])
    return DataLoader(ImageFolder(folder, steps), batch_size=BATCH, shuffle=shuffle,
                      num_workers=WORKERS)


def make_network(classes):
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, classes))


def train_epoch(network, loader, optimizer):
    network.train()
    for images, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()


@torch.no_grad()
def accuracy(network, loader):
    network.eval()
    right = sum((network(images).argmax(1) == labels).sum().item() for images, labels in loader)
    return right / len(loader.dataset)


def main():
    folder, epochs = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(7)
    started = time.monotonic()
    train = make_loader(f"{folder}/train", shuffle=True)
    test = make_loader(f"{folder}/test", shuffle=False)
    network = make_network(len(train.dataset.classes))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for epoch in range(1, epochs + 1):
        train_epoch(network, train, optimizer)
        print(f"epoch {epoch}: {time.monotonic() - started:.1f} s, "
              f"test accuracy {accuracy(network, test):.4f}", flush=True)
        started = time.monotonic()


if __name__ == "__main__":
    main()
