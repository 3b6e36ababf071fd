# SPDX-License-Identifier: Apache-2.0
"""For all suites: a folder for each test, which is cleared whatever happened, and a watchdog."""

import pytest

from rig import leftovers
from rig.watchdog import Watchdog

WATCHDOG = pytest.StashKey()


@pytest.fixture(scope="session", autouse=True)
def cleared():
    """What an earlier run left, and would be in the way."""
    leftovers.clear_abandoned()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item, settings):
    """Beside the time-out of each test, whose signal does not reach what waits in the kernel."""
    if settings.timeout:
        if WATCHDOG not in item.config.stash:
            item.config.stash[WATCHDOG] = Watchdog()
        item.config.stash[WATCHDOG].arm(item.nodeid, settings.timeout)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    yield
    if WATCHDOG in item.config.stash:
        item.config.stash[WATCHDOG].disarm()


@pytest.fixture
def folder():
    path = leftovers.make_folder()
    yield path
    left = leftovers.clear(path)
    assert not left, f"processes of the test will not end: {left}"
