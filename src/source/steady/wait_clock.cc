// SPDX-License-Identifier: Apache-2.0
#include "source/steady/wait_clock.h"

#include <algorithm>

namespace leat {
namespace {

class MachineClock : public WaitClock {
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

std::shared_ptr<WaitClock> machine_clock() {
  static const auto clock = std::make_shared<MachineClock>();
  return clock;
}

}  // namespace leat
