# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of large frameworks in a mount survive kills of the daemon and of the training program.

As e2e/checkpoints_test.py with PyTorch. These take a GB to install or seconds to start, so `make soak`
runs them and `make test` does not.
"""

import os
import random

import pytest

from e2e.checkpoints import PLACES, Trainer, endure, mount_for_kills

KINDS = {
    "checkpoint": ("docs-large", {}),
    "saved_model": ("docs-large", {"renames_folders": True}),
    "orbax": ("jax", {"renames_folders": True}),
    "hugging_face": ("training", {"names_are_complete": False}),
    "lightning": ("training", {"names_are_complete": False}),
}


@pytest.fixture(params=KINDS)
def trainer(request, folder):
    environment, how = KINDS[request.param]
    trainer = Trainer(folder, "soak/large_checkpoint_programs.py", request.param, environment,
                      forks=False, **how)
    yield trainer
    trainer.close()


@pytest.fixture
def mode(request):
    return request.param


@pytest.fixture
def written(request, leat, folder, mode):
    return mount_for_kills(request, leat, folder, mode)


@pytest.mark.timeout(600 + 60 * int(os.environ.get("LEAT_TEST_SCALE") or 1))
@pytest.mark.parametrize("written, mode", PLACES, indirect=True)
def test_a_complete_checkpoint_loads(written, trainer, seed, scale):
    endure(written, trainer, random.Random(seed), rounds=4 + scale // 2)
