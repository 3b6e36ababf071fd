// SPDX-License-Identifier: Apache-2.0
#include "peer/invalidation/invalidation_subscriber.h"

#include <atomic>

#include "runtime/shared_promise.h"

namespace leat {
namespace {

class InvalidationSubscriberImpl : public InvalidationSubscriber {
 public:
  explicit InvalidationSubscriberImpl(InvalidationSubscriberOptions options)
      : options_(std::move(options)) {}

  Task<> stop() override {
    stopping_.request_stop();
    Result<bool> ended = co_await ended_->wait(Context::background(), "the end of a subscriber");
    static_cast<void>(ended);
  }

  bool lease_valid() const override { return lease_valid_; }

  // Runs until stop().
  Task<> follow() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    Clock::time_point renewed_at = Clock::now();
    uint64_t after = kUnknown;
    for (size_t worker = 0; !context.cancelled();) {
      // Numbers of one worker mean nothing to another. The deadline is the end of the lease, so
      // that a worker that delays its answer cannot extend it.
      Context until_lease_end = context;
      until_lease_end.deadline = (lease_valid_ ? renewed_at : Clock::now()) + options_.lease;
      Result<Invalidations> received =
          co_await options_.poll(std::move(until_lease_end), worker, after);
      if (context.cancelled()) break;
      if (received) {
        renewed_at = Clock::now();
        after = received->number;
        if (!received->items.empty()) co_await options_.changed(*std::move(received));
        lease_valid_ = true;  // set last: `changed` may only now invalidate names listed before
        continue;
      }
      ++worker;
      after = kUnknown;
      if (lease_valid_ && Clock::now() - renewed_at >= options_.lease) {
        lease_valid_ = false;
        co_await options_.changed(
            Invalidations{.number = 0, .items = {Invalidation{.mount = "/", .key = ""}}});
      }
      Result<> slept = co_await sleep_for(context, options_.backoff);
      static_cast<void>(slept);
    }
    ended_->set(true);
  }

 private:
  // No log begins at 0.
  static constexpr uint64_t kUnknown = 0;

  const InvalidationSubscriberOptions options_;
  std::atomic<bool> lease_valid_ = true;
  std::stop_source stopping_;
  const std::shared_ptr<SharedPromise<bool>> ended_ = SharedPromise<bool>::make();
};

}  // namespace

std::unique_ptr<InvalidationSubscriber> InvalidationSubscriber::start(
    InvalidationSubscriberOptions options, Executor& executor) {
  auto subscriber = std::make_unique<InvalidationSubscriberImpl>(std::move(options));
  executor.spawn(subscriber->follow());
  return subscriber;
}

}  // namespace leat
