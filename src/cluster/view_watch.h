// SPDX-License-Identifier: Apache-2.0
// ViewWatch: holds the newest view and wakes those that wait for a newer one. Thread-safe; its
// mutex is a leaf.
#pragma once

#include <memory>
#include <mutex>

#include "cluster/cluster_view.h"
#include "runtime/shared_promise.h"

namespace leat {

class ViewWatch : public ClusterViewSource {
 public:
  ClusterViewPtr view() const override {
    std::lock_guard lock(mutex_);
    return view_;
  }

  void set(ClusterViewPtr view) {
    std::shared_ptr<SharedPromise<bool>> next;
    {
      std::lock_guard lock(mutex_);
      view_ = std::move(view);
      next = std::exchange(changed_, SharedPromise<bool>::make());
    }
    next->set(true);
  }

  Task<Result<ClusterViewPtr>> newer(Context context, RegistryRevision after) override {
    RegistryRevision seen = 0;
    while (true) {
      std::shared_ptr<SharedPromise<bool>> next;
      {
        std::lock_guard lock(mutex_);
        if (view_->revision > after || view_->revision < seen) co_return view_;
        seen = view_->revision;
        next = changed_;
      }
      Result<bool> changed = co_await next->wait(context, "a change of the cluster");
      if (!changed) co_return Error(changed.error());
    }
  }

 private:
  mutable std::mutex mutex_;
  ClusterViewPtr view_ = std::make_shared<const ClusterView>();
  std::shared_ptr<SharedPromise<bool>> changed_ = SharedPromise<bool>::make();
};

}  // namespace leat
