# SPDX-License-Identifier: Apache-2.0
"""The Rust shim keeps its layers, and the checker finds violations in trees made for it."""

import pytest

from rules.rules_test import ROOT, load_tool, write_tree

check_shim_layers = load_tool("check_shim_layers")

SOUND = {
    "lib.rs": "mod attempt;\nmod core;\nmod net;\n",
    "core/mod.rs": "pub mod entry;\npub mod failure;\n",
    "core/entry.rs": "use crate::core::failure::Failure;\n",
    "core/failure.rs": "use std::error::Error;\n",
    "net/mod.rs": "pub mod get;\n",
    "net/get/mod.rs": "mod pool;\nmod tls;\nuse pool::Pool;\nuse crate::core::entry::Entry;\n",
    "net/get/pool.rs": "use super::tls::Tls;\n",
    "net/get/tls.rs": "use core::fmt;\n",
    "attempt/mod.rs": "pub mod exchange;\n",
    "attempt/exchange.rs": "use crate::{core::failure::{Code, Failure}, net::get::{self, Getter}};\n",
}


def violations(tmp_path, **files):
    changed = {name.replace("__", "/") + ".rs": text for name, text in files.items()}
    return list(check_shim_layers.check_tree(write_tree(tmp_path, {**SOUND, **changed})))


def test_shim_of_this_tree_is_layered():
    assert list(check_shim_layers.check_tree(ROOT / "src/source/shim/src")) == []


def test_sound_layers_are_accepted(tmp_path):
    assert violations(tmp_path) == []


@pytest.mark.parametrize("text", [
    "use crate::attempt::exchange::Exchange;\n",
    "use crate::{core::entry::Entry, attempt::{exchange::{self, Exchange}}};\n",
    "pub(crate) use crate::attempt::exchange as other;\n",
    "fn f() -> u8 {\n    crate::attempt::exchange::limit()\n}\n",
    "fn f() {\n    super::super::super::attempt::exchange::run(\"a // b\")\n}\n",
    "const QUOTE: char = '\"';\nuse crate::attempt::exchange::Exchange; // not \"quoted\"\n",
])
def test_upward_use_is_caught(tmp_path, text):
    found = violations(tmp_path, net__get__tls=text)
    assert found == ["net/get/tls.rs: uses crate::attempt::exchange, but layer attempt is above net"]


@pytest.mark.parametrize("text", [
    "// use crate::attempt::exchange::Exchange;\n",
    'const TEXT: &str = "crate::attempt::exchange";\n',
    "#[cfg(test)]\nmod tests {\n    use crate::attempt::exchange::Exchange;\n}\n",
])
def test_text_and_tests_are_no_use(tmp_path, text):
    assert violations(tmp_path, core__failure=text) == []


@pytest.mark.parametrize("files, expected", [
    ({"core__failure": "use crate::core::entry::Entry;\n"},
     "a circle: core/entry.rs uses core/failure.rs uses core/entry.rs"),
    ({"net__get__tls": "use super::pool::Pool;\n"},
     "a circle: net/get/pool.rs uses net/get/tls.rs uses net/get/pool.rs"),
    ({"core__failure": "use super::*;\n"},
     "a circle: core/mod.rs uses core/entry.rs uses core/failure.rs uses core/mod.rs"),
])
def test_circle_in_a_layer_is_caught(tmp_path, files, expected):
    assert expected in violations(tmp_path, **files)


def test_file_without_a_layer_is_caught(tmp_path):
    found = violations(tmp_path, stray="", core__entry="use crate::stray::Stray;\n")
    assert any(line.startswith("stray.rs: lies in no layer") for line in found)
    assert "core/entry.rs: uses crate::stray, which is in no layer" in found
