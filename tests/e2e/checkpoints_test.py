# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch in a mount survive kills of the daemon and of the training program.

Larger frameworks are in tests/soak, which `make soak` runs.
"""

import os
import random

import pytest

from e2e.checkpoints import PLACES, Trainer, endure, mount_for_kills


@pytest.fixture(params=["torch", "safetensors", "distributed"])
def trainer(request, folder):
    trainer = Trainer(folder, "e2e/checkpoint_programs.py", request.param, "docs")
    yield trainer
    trainer.close()


@pytest.fixture
def mode(request):
    return request.param


@pytest.fixture
def written(request, leat, folder, mode):
    return mount_for_kills(request, leat, folder, mode)


@pytest.mark.timeout(300 + 60 * int(os.environ.get("LEAT_TEST_SCALE") or 1))
@pytest.mark.parametrize("written, mode", PLACES, indirect=True)
def test_a_complete_checkpoint_loads(written, trainer, seed, scale):
    endure(written, trainer, random.Random(seed), rounds=4 * scale)
