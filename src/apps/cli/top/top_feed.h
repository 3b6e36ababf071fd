// SPDX-License-Identifier: Apache-2.0
// TopFeed: samples the daemon repeatedly, also across a restart of the daemon.
#pragma once

#include <optional>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/top/top_sample.h"

namespace leat {

class TopFeed {
 public:
  explicit TopFeed(DaemonClient& client) : client_(client) {}

  // Waits for a daemon that is starting. Returns the usual error if none runs.
  CommandResult<TopSnapshot> fetch();
  // The same with a timeout of about `timeout`; returns nothing then.
  std::optional<TopSnapshot> try_fetch(Clock::duration timeout);
  // Returns the daemon's last hour. Nothing after about `timeout`, or from a daemon that keeps
  // none.
  std::optional<HistoryView> history(Clock::duration timeout);

 private:
  DaemonClient& client_;
};

}  // namespace leat
