// SPDX-License-Identifier: Apache-2.0
// What is told after the names of a mount began to come from elsewhere.
#pragma once

#include "catalog/tree.h"

namespace leat {

// Reads all that both sides know: blocks.
void tell_switch(Tree& tree, const Tree::Switch& done);

}  // namespace leat
