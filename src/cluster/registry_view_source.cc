// SPDX-License-Identifier: Apache-2.0
#include "cluster/registry_view_source.h"

#include "cluster/cluster_records.h"
#include "cluster/registry_cache.h"
#include "cluster/view_watch.h"

namespace leat {
namespace {

class RegistryViewSourceImpl : public RegistryViewSource {
 public:
  explicit RegistryViewSourceImpl(RegistryViewSourceOptions options)
      : options_(std::move(options)) {}

  void begin(Registry& registry, Executor& executor) {
    RegistryCacheOptions options;
    options.changed = [this](const RegistryView& entries) { take(entries); };
    options.relisted = [this] {
      if (options_.relisted) options_.relisted(view());
    };
    cache_ =
        RegistryCache::start(registry, std::string(kClusterKeys), std::move(options), executor);
  }

  ClusterViewPtr view() const override { return watch_.view(); }
  Task<Result<ClusterViewPtr>> newer(Context context, RegistryRevision after) override {
    return watch_.newer(std::move(context), after);
  }
  Task<Result<>> first_view(Context context) override { return cache_->first_view(context); }
  std::optional<Status> trouble() const override { return cache_->trouble(); }
  Task<> stop() override { return cache_->stop(); }

 private:
  void take(const RegistryView& entries) {
    auto view = std::make_shared<const ClusterView>(view_of(entries, options_.cluster));
    watch_.set(view);
    if (options_.changed) options_.changed(view);
  }

  const RegistryViewSourceOptions options_;
  ViewWatch watch_;
  std::unique_ptr<RegistryCache> cache_;
};

}  // namespace

std::unique_ptr<RegistryViewSource> RegistryViewSource::start(Registry& registry,
                                                              RegistryViewSourceOptions options,
                                                              Executor& executor) {
  auto source = std::make_unique<RegistryViewSourceImpl>(std::move(options));
  source->begin(registry, executor);
  return source;
}

}  // namespace leat
