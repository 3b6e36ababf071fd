// SPDX-License-Identifier: Apache-2.0
// The extended attributes user.leat.* of a node, readable by getfattr.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "vfs/node_table.h"

namespace leat {

// Input of the attributes.
struct NodeView {
  NodePtr node;
  NodeFacts facts;
  PageStore* store = nullptr;
  Freshness freshness{};  // of its path, in its mount
  std::optional<PathError> last_error{};
};

// Returns the node's object as a URL, "s3://bucket/train/0001.png"; empty above all mounts.
std::string source_of(const NodeView& view);

// Returns the names that have a value.
std::vector<std::string> extended_attribute_names(const NodeView& view);
// Returns kNotFound for any other name.
Result<std::string> extended_attribute_value(const NodeView& view, std::string_view name);

}  // namespace leat
