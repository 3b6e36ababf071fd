// SPDX-License-Identifier: Apache-2.0
// TopFeed: samples the daemon repeatedly, also across a restart of the daemon.
#pragma once

#include <optional>

#include "apps/client/daemon_client.h"
#include "apps/top/top_sample.h"

namespace leat {

class TopFeed {
 public:
  explicit TopFeed(DaemonClient& client) : client_(client) {}

  // Waits for a daemon that is starting. Returns the usual error if none runs.
  Attempt<TopLook> look();
  // The same with a timeout of about `patience`; returns nothing then.
  std::optional<TopLook> glance(Clock::duration patience);
  // Returns the daemon's last hour. Nothing after about `patience`, or from a daemon that keeps
  // none.
  std::optional<HistoryView> history(Clock::duration patience);

 private:
  DaemonClient& client_;
};

}  // namespace leat
