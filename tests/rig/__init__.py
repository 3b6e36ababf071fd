# SPDX-License-Identifier: Apache-2.0
"""The rig: real processes that tests, the demo and the benchmarks run against. Standard library only."""
