// SPDX-License-Identifier: Apache-2.0
// TopFeed: looks at the daemon again and again, also past the end of one daemon and the start of
// the next.
#pragma once

#include <optional>

#include "apps/client/daemon_client.h"
#include "apps/top/top_sample.h"

namespace leat {

class TopFeed {
 public:
  explicit TopFeed(DaemonClient& client) : client_(client) {}

  // Waits for a daemon that is about to come; the usual failure where none runs.
  Attempt<TopLook> look();
  // The same within about `patience`, whatever the daemon does: none, then.
  std::optional<TopLook> glance(Clock::duration patience);
  // The daemon's last hour. None within about `patience`, and of a daemon that keeps none.
  std::optional<HistoryView> history(Clock::duration patience);

 private:
  DaemonClient& client_;
};

}  // namespace leat
