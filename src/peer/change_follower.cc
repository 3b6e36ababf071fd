// SPDX-License-Identifier: Apache-2.0
#include "peer/change_follower.h"

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

  // Until stop().
  Task<> follow() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    // What has been kept since then is believed.
    Clock::time_point since = Clock::now();
    uint64_t after = kUnknown;
    for (size_t worker = 0; !context.cancelled();) {
      // Numbers of one worker mean nothing to another.
      // One that holds its answer back must not hold the end of what is believed.
      Result<PeerChanges> news =
          co_await options_.ask(context.with_timeout(options_.lease), worker, after);
      if (context.cancelled()) break;
      if (news) {
        since = Clock::now();
        after = news->number;
        if (!news->changes.empty()) co_await options_.changed(*std::move(news));
        continue;
      }
      ++worker;
      after = kUnknown;
      if (Clock::now() - since >= options_.lease) {
        since = Clock::now();
        co_await options_.changed(
            PeerChanges{.number = 0, .changes = {PeerChange{.mount = "/", .key = ""}}});
      }
      Result<> slept = co_await sleep_for(context, options_.pause);
      static_cast<void>(slept);
    }
    ended_->set(true);
  }

 private:
  // No log begins so low.
  static constexpr uint64_t kUnknown = 0;

  const ChangeFollowerOptions options_;
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
