// SPDX-License-Identifier: Apache-2.0
// Checkup: everything that `leat doctor` looks at, in the order in which it is shown. It changes
// nothing, and waits for nothing without a bound.
#pragma once

#include "apps/daemon/daemon_options.h"
#include "apps/doctor/finding.h"
#include "apps/doctor/host_places.h"

namespace leat {

struct Checkup {
  Findings findings;
  Json kernel;  // what it offers over FUSE; null where it could not be asked
};

// `run`: the daemon of which runtime directory, and with which configuration it would start. Where
// it runs, its own configuration counts, and of the run only the settings.
Checkup check_host(const HostPlaces& places, const DaemonRun& run);

}  // namespace leat
