// SPDX-License-Identifier: Apache-2.0
// Notifications after a mount's names have another origin.
#pragma once

#include "catalog/tree.h"

namespace leat {

// Notifies of all differences between both sides; blocks.
void notify_snapshot_change(Tree& tree, const Tree::MountSwap& swap);

}  // namespace leat
