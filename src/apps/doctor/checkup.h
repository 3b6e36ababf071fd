// SPDX-License-Identifier: Apache-2.0
// Checkup: everything that `leat doctor` looks at, in the order in which it is shown. It changes
// nothing, and waits for nothing without a bound.
#pragma once

#include <vector>

#include "apps/daemon/daemon_options.h"
#include "apps/doctor/finding.h"
#include "apps/doctor/host_places.h"
#include "model/store_url.h"

namespace leat {

struct Checkup {
  Findings findings;
  Json kernel;  // what it offers over FUSE; null where it could not be asked
};

struct CheckupOrder {
  // The daemon of which runtime directory, and with which configuration it would start. Where it
  // runs, its own configuration counts, and of the run only the settings.
  DaemonRun run{};
  // Asked with the credentials of this process; those of the daemon may be others.
  std::vector<StoreUrl> sources{};
  // Disks are measured, which writes up to 64 MiB to each for a moment.
  bool speed = true;
};

Checkup check_host(const HostPlaces& places, const CheckupOrder& order);

}  // namespace leat
