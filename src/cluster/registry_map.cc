// SPDX-License-Identifier: Apache-2.0
#include "cluster/registry_map.h"

#include "cluster/cluster_records.h"
#include "cluster/registry_mirror.h"
#include "cluster/view_signal.h"

namespace leat {
namespace {

class RegistryMapImpl : public RegistryMap {
 public:
  explicit RegistryMapImpl(RegistryMapOptions options) : options_(std::move(options)) {}

  void begin(Registry& registry, Executor& executor) {
    RegistryMirrorOptions options;
    options.changed = [this](const RegistryView& entries) { take(entries); };
    options.listed_anew = [this] {
      if (options_.listed_anew) options_.listed_anew(view());
    };
    mirror_ =
        RegistryMirror::start(registry, std::string(kClusterKeys), std::move(options), executor);
  }

  ClusterViewPtr view() const override { return signal_.view(); }
  Task<Result<ClusterViewPtr>> newer(Context context, RegistryRevision after) override {
    return signal_.newer(std::move(context), after);
  }
  Task<Result<>> first_view(Context context) override { return mirror_->first_view(context); }
  std::optional<Status> trouble() const override { return mirror_->trouble(); }
  Task<> stop() override { return mirror_->stop(); }

 private:
  void take(const RegistryView& entries) {
    auto view = std::make_shared<const ClusterView>(view_of(entries, options_.cluster));
    signal_.set(view);
    if (options_.changed) options_.changed(view);
  }

  const RegistryMapOptions options_;
  ViewSignal signal_;
  std::unique_ptr<RegistryMirror> mirror_;
};

}  // namespace

std::unique_ptr<RegistryMap> RegistryMap::start(Registry& registry, RegistryMapOptions options,
                                                Executor& executor) {
  auto map = std::make_unique<RegistryMapImpl>(std::move(options));
  map->begin(registry, executor);
  return map;
}

}  // namespace leat
