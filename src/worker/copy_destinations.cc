// SPDX-License-Identifier: Apache-2.0
#include "worker/copy_destinations.h"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/cluster_records.h"
#include "model/mount_entry.h"
#include "worker/cluster_mounts.h"

namespace leat {
namespace {

constexpr size_t kOpenMax = 16;

}  // namespace

template <class Open>
Result<SourcePtr> CopyDestinations::open_cached(const std::string& key, Open open) {
  std::lock_guard lock(mutex_);
  auto found = std::ranges::find(open_, key, &OpenSource::key);
  if (found != open_.end()) return found->source;
  LEAT_TRY(SourcePtr source, open());
  if (!source->capabilities().writes) {
    return error(
        StatusCode::kUnsupported,
        fmt::format("{} is read-only: Leat cannot write to stores of this kind", source->name()));
  }
  if (open_.size() == kOpenMax) open_.pop_front();
  open_.push_back({key, source});
  return source;
}

Result<CopySessions::Destination> CopyDestinations::find(const CopySpec& spec) {
  Result<CopySessions::Destination> destination =
      spec.to.starts_with('/') ? resolve_key(spec) : find_url(spec);
  if (destination && destination->key.empty()) {
    return error(StatusCode::kIsDirectory,
                 fmt::format("{} does not name a file; end it with '/' to copy into it", spec.to));
  }
  return destination;
}

Result<CopySessions::Destination> CopyDestinations::resolve_key(const CopySpec& spec) {
  const ClusterViewPtr view = views_.view();
  const ClusterMount* mount = view->mount_of(spec.to);
  if (mount == nullptr) {
    return error(StatusCode::kNotFound,
                 fmt::format("nothing is mounted at {} of the cluster", spec.to));
  }
  auto open = [this, mount]() -> Result<SourcePtr> {
    LEAT_TRY(OpenedMount there, open_cluster_mount(*mount, local_));
    return std::move(there.source);
  };
  LEAT_TRY(SourcePtr source, open_cached(encode_mount(*mount), open));
  return CopySessions::Destination{std::move(source),
                                   mount->prefix + std::string(path_below(spec.to, mount->path))};
}

Result<CopySessions::Destination> CopyDestinations::find_url(const CopySpec& spec) {
  LEAT_TRY(const StoreUrl url, StoreUrl::parse(spec.to));
  LEAT_TRY(SourcePtr source, open_cached(spec.to, [&] { return local_.open(url); }));
  std::string key = url.prefix + spec.key;
  if (key.ends_with('/')) key.pop_back();
  return CopySessions::Destination{std::move(source), std::move(key)};
}

}  // namespace leat
