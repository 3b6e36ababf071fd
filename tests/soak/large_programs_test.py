# SPDX-License-Identifier: Apache-2.0
"""Large programs read a mounted bucket and a local copy of it, and find the same.

What e2e/programs_test.py does with small ones. These take a GB to install or half a minute to start, so
`make soak` runs them and `make test` does not.
"""

import pytest

from e2e.programs import TESTS, copies_of_data, python_of
from soak.large_program_reads import READS

ENVIRONMENTS = {"tensorflow": "docs-large", "torch": "docs", "datasets": "programs-large"}


@pytest.fixture(scope="module")
def copies():
    with copies_of_data() as made:
        yield made


@pytest.mark.parametrize("name", READS)
def test_a_large_program(copies, name):
    copies.compare([python_of(ENVIRONMENTS[name]), TESTS / "soak" / "large_program_reads.py", name,
                    "ROOT"], TF_CPP_MIN_LOG_LEVEL="3")


def test_every_program_has_an_environment():
    assert ENVIRONMENTS.keys() == READS.keys()
