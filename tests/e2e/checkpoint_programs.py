# SPDX-License-Identifier: Apache-2.0
"""Saves and loads checkpoints of a small model with PyTorch, as checkpoint_saver.py says. Runs in the
environment of tests/docs_requirements.txt."""

import contextlib
import dataclasses
import os
import shutil

from e2e.checkpoint_saver import Kind, main


def step(number):
    """The model and its optimizer after a step of training, the same each time."""
    import torch
    torch.manual_seed(number)
    model = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.ReLU(), torch.nn.Linear(300, 10))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(8, 300)).square().mean().backward()
    optimizer.step()
    return model, optimizer


def arrays_of(model_state, optimizer_state=None):
    found = {name: value.numpy() for name, value in model_state.items()}
    for index, values in (optimizer_state or {"state": {}})["state"].items():
        found.update({f"{index}.{name}": value.numpy() for name, value in values.items()})
    return found


class OneFile(Kind):
    """A checkpoint is a file that gets its name when it is whole."""

    ending = ""

    def write(self, path, state, number):
        raise NotImplementedError

    def path(self, folder, number):
        return folder / f"step-{number}{self.ending}"

    def save(self, folder, number, state):
        temporary = folder / f"step-{number}.tmp"
        self.write(temporary, state, number)
        os.replace(temporary, self.path(folder, number))

    def names(self, folder):
        return [int(one.stem.removeprefix("step-")) for one in folder.glob(f"step-*{self.ending}")]

    def remove(self, folder, number):
        self.path(folder, number).unlink(missing_ok=True)


class Torch(OneFile):
    ending = ".pt"

    def __init__(self):
        import torch
        torch.set_num_threads(1)
        self.torch = torch

    def state(self, number):
        model, optimizer = step(number)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        return state, arrays_of(state["model"], state["optimizer"])

    def write(self, path, state, number):
        if number % 2:
            return self.torch.save(state, path)
        with open(path, "wb") as file:
            self.torch.save(state, file)
            os.fsync(file.fileno())

    def load(self, folder, number):
        state = self.torch.load(self.path(folder, number))
        return arrays_of(state["model"], state["optimizer"])


class Safetensors(Torch):
    ending = ".safetensors"

    def __init__(self):
        super().__init__()
        import safetensors.torch
        self.library = safetensors.torch

    def state(self, number):
        state = step(number)[0].state_dict()
        return state, arrays_of(state)

    def write(self, path, state, number):
        self.library.save_file(state, path)

    def load(self, folder, number):
        return arrays_of(self.library.load_file(self.path(folder, number)))


@contextlib.contextmanager
def dataclasses_as_before():
    """PyTorch 1.13 has a default in a dataclass that Python 3.11 takes for one that changes."""
    plain = dataclasses.dataclass

    def with_hash(cls=None, **options):
        def made(cls):
            one = plain(cls, **options)
            if one.__hash__ is None:
                one.__hash__ = object.__hash__
            return one
        return made if cls is None else made(cls)

    dataclasses.dataclass = with_hash
    try:
        yield
    finally:
        dataclasses.dataclass = plain


class Distributed(Kind):
    """PyTorch's distributed checkpoint: a directory with a file for each tensor, all synchronised, then
    the metadata under a temporary name, then its rename."""

    def __init__(self):
        with dataclasses_as_before():
            import torch.distributed._shard.checkpoint as library
        self.library = library

    def state(self, number):
        state = step(number)[0].state_dict()
        return state, arrays_of(state)

    def save(self, folder, number, state):
        writer = self.library.FileSystemWriter(folder / f"step-{number}")
        self.library.save_state_dict(state, writer, no_dist=True)

    def names(self, folder):
        return [int(one.parent.name.removeprefix("step-")) for one in folder.glob("step-*/.metadata")]

    def load(self, folder, number):
        state = step(number + 1)[0].state_dict()  # other values
        reader = self.library.FileSystemReader(folder / f"step-{number}")
        self.library.load_state_dict(state, reader, no_dist=True)
        return arrays_of(state)

    def remove(self, folder, number):
        (folder / f"step-{number}" / ".metadata").unlink(missing_ok=True)
        if (folder / f"step-{number}").exists():
            shutil.rmtree(folder / f"step-{number}")


if __name__ == "__main__":
    main({"torch": Torch, "safetensors": Safetensors, "distributed": Distributed})
