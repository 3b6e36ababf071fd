// SPDX-License-Identifier: Apache-2.0
#include "vfs/extended_attributes.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>

namespace leat {
namespace {

struct Attribute {
  std::string_view name;
  std::optional<std::string> (*value)(const NodeView&);  // nothing: the node has none
};

std::optional<std::string> source(const NodeView& view) {
  std::string url = source_of(view);
  if (url.empty()) return std::nullopt;
  return url;
}

std::optional<std::string> version(const NodeView& view) {
  if (!view.node->ref) return std::nullopt;
  return view.node->ref->version.to_string();
}

std::optional<std::string> size(const NodeView& view) {
  if (!view.node->ref) return std::nullopt;
  return std::to_string(view.node->ref->size);
}

std::optional<std::string> cached_bytes(const NodeView& view) {
  if (!view.node->ref) return std::nullopt;
  const uint64_t bytes = view.store == nullptr ? 0 : view.store->cached_bytes(*view.node->ref);
  return std::to_string(bytes);
}

std::optional<std::string> cached(const NodeView& view) {
  if (!view.node->ref) return std::nullopt;
  const uint64_t bytes = view.store == nullptr ? 0 : view.store->cached_bytes(*view.node->ref);
  if (bytes >= view.node->ref->size) return "complete";
  return bytes == 0 ? "none" : "partial";
}

std::optional<std::string> freshness(const NodeView& view) {
  if (!view.facts.mount) return std::nullopt;
  return view.freshness.to_string();
}

std::optional<std::string> cache(const NodeView& view) {
  if (!view.node->ref) return std::nullopt;
  return std::string(to_string(view.node->ref->cache));
}

std::optional<std::string> node(const NodeView& view) {
  return std::to_string(view.node->id);
}

std::optional<std::string> last_error(const NodeView& view) {
  if (!view.last_error) return std::nullopt;
  const auto second = std::chrono::floor<std::chrono::seconds>(view.last_error->time);
  return fmt::format("{:%FT%TZ} {}", second, view.last_error->reason);
}

constexpr std::array kAttributes = {
    Attribute{"user.leat.source", &source},
    Attribute{"user.leat.version", &version},
    Attribute{"user.leat.size", &size},
    Attribute{"user.leat.cached_bytes", &cached_bytes},
    Attribute{"user.leat.cached", &cached},
    Attribute{"user.leat.cache", &cache},
    Attribute{"user.leat.freshness", &freshness},
    Attribute{"user.leat.node", &node},
    Attribute{"user.leat.last_error", &last_error},
};

}  // namespace

std::string source_of(const NodeView& view) {
  if (!view.facts.mount) return {};
  const StoreUrl& url = view.facts.mount->entry.source;
  const std::string& key = view.node->ref ? view.node->ref->key : view.facts.key;
  return fmt::format("{}://{}/{}", url.scheme, url.bucket, key);
}

std::vector<std::string> extended_attribute_names(const NodeView& view) {
  std::vector<std::string> names;
  for (const Attribute& attribute : kAttributes) {
    if (attribute.value(view)) names.emplace_back(attribute.name);
  }
  return names;
}

Result<std::string> extended_attribute_value(const NodeView& view, std::string_view name) {
  for (const Attribute& attribute : kAttributes) {
    if (attribute.name != name) continue;
    std::optional<std::string> value = attribute.value(view);
    if (value) return *std::move(value);
  }
  return error(StatusCode::kNotFound, fmt::format("there is no attribute '{}'", name));
}

}  // namespace leat
