// SPDX-License-Identifier: Apache-2.0
// Notifications after a mount's names have another origin.
#pragma once

#include "catalog/tree.h"

namespace leat {

// Notifies of all differences between both sides; blocks.
void tell_switch(Tree& tree, const Tree::Switch& done);

}  // namespace leat
