// SPDX-License-Identifier: Apache-2.0
#include "peer/change_follower.h"

#include <atomic>

#include "runtime/shared_result.h"

namespace leat {
namespace {

class ChangeFollowerImpl : public ChangeFollower {
 public:
  explicit ChangeFollowerImpl(ChangeFollowerOptions options) : options_(std::move(options)) {}

  Task<> stop() override {
    stopping_.request_stop();
    Result<bool> ended = co_await ended_->wait(Context::background(), "the end of a follower");
    static_cast<void>(ended);
  }

  bool hears() const override { return hears_; }

  // Runs until stop().
  Task<> follow() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    Clock::time_point heard = Clock::now();
    uint64_t after = kUnknown;
    for (size_t worker = 0; !context.cancelled();) {
      // Numbers of one worker mean nothing to another. The deadline is the end of the lease, so
      // that a worker that delays its answer cannot extend it.
      Context patience = context;
      patience.deadline = (hears_ ? heard : Clock::now()) + options_.lease;
      Result<PeerChanges> news = co_await options_.ask(std::move(patience), worker, after);
      if (context.cancelled()) break;
      if (news) {
        heard = Clock::now();
        after = news->number;
        if (!news->changes.empty()) co_await options_.changed(*std::move(news));
        hears_ = true;  // set last: `changed` may only now invalidate names listed before
        continue;
      }
      ++worker;
      after = kUnknown;
      if (hears_ && Clock::now() - heard >= options_.lease) {
        hears_ = false;
        co_await options_.changed(
            PeerChanges{.number = 0, .changes = {PeerChange{.mount = "/", .key = ""}}});
      }
      Result<> slept = co_await sleep_for(context, options_.pause);
      static_cast<void>(slept);
    }
    ended_->set(true);
  }

 private:
  // No log begins at 0.
  static constexpr uint64_t kUnknown = 0;

  const ChangeFollowerOptions options_;
  std::atomic<bool> hears_ = true;
  std::stop_source stopping_;
  const std::shared_ptr<SharedResult<bool>> ended_ = SharedResult<bool>::make();
};

}  // namespace

std::unique_ptr<ChangeFollower> ChangeFollower::start(ChangeFollowerOptions options,
                                                      Executor& executor) {
  auto follower = std::make_unique<ChangeFollowerImpl>(std::move(options));
  executor.spawn(follower->follow());
  return follower;
}

}  // namespace leat
