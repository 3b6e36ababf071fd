// SPDX-License-Identifier: Apache-2.0
#include "peer/mounts/mount_ttl.h"

#include "model/policy_settings.h"
#include "model/store_url.h"
#include "peer/mounts/mount_lookup.h"

namespace leat {
namespace {

Freshness freshness_of(const ClusterMount& mount) {
  std::map<std::string, std::string> options;
  if (const Result<StoreUrl> url = StoreUrl::parse(mount.source); url) options = url->options;
  for (const auto& [name, value] : mount.options) options[name] = value;
  PolicySettings settings;
  for (std::string_view option : policy_options()) {
    if (auto given = options.find(std::string(option)); given != options.end()) {
      settings.mount.insert(*given);
    }
  }
  const Result<ParsedPolicy> parsed = parse_policy(mount.path, settings, {});
  return parsed ? parsed->policy.freshness : Freshness();
}

bool expires(const Freshness& freshness) {
  return freshness.mode == Freshness::Mode::kMaxAge || freshness.mode == Freshness::Mode::kValidate;
}

}  // namespace

NameTtl name_ttl_of(const ClusterMount& mount) {
  const Freshness freshness = freshness_of(mount);
  NameTtl ttl;
  if (expires(freshness)) ttl.present = freshness.max_age;
  ttl.missing = freshness.effective_negative_ttl() / 2;
  return ttl;
}

NameTtl MountTtls::of(const ClusterViewPtr& view, std::string_view key) {
  const ClusterMount* mount = resolve_key(*view, key).mount;
  if (mount == nullptr) return {};
  std::lock_guard lock(mutex_);
  if (view_ != view) {
    by_mount_.clear();
    view_ = view;
  }
  const auto cached = by_mount_.find(mount->path);
  if (cached != by_mount_.end()) return cached->second;
  return by_mount_[mount->path] = name_ttl_of(*mount);
}

}  // namespace leat
