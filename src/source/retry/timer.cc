// SPDX-License-Identifier: Apache-2.0
#include "source/retry/timer.h"

#include <algorithm>

namespace leat {
namespace {

class SystemTimer : public Timer {
 public:
  Clock::time_point now() const override { return Clock::now(); }

  Task<Result<bool>> wait(Context context, Event event, Clock::time_point until,
                          const char* what) override {
    Context bounded = context;
    bounded.deadline = std::min(context.deadline, until);
    Result<bool> set = co_await event->wait(bounded, what);
    if (set) co_return true;
    if (auto alive = context.check(what); !alive) co_return Error(alive.error());
    co_return false;
  }
};

}  // namespace

std::shared_ptr<Timer> system_timer() {
  static const auto timer = std::make_shared<SystemTimer>();
  return timer;
}

}  // namespace leat
