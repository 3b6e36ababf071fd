// SPDX-License-Identifier: Apache-2.0
// The parts of leat_scale, each of which prints its figures.
#pragma once

#include "scale/setting.h"

namespace leat::scale {

void run_placement(const Setting& setting);  // shares, look-ups, the ring's size
void run_rebalance(const Setting& setting);  // data moved when workers join and leave
void run_registry(const Setting& setting);   // records, watches, a start of all workers
void run_etcd(const Setting& setting);       // the same with a real etcd
void run_peers(const Setting& setting);      // requests between workers and clients
void run_memory(const Setting& setting);     // of a worker and of a client
void run_listing(const Setting& setting);    // names from the store, from owners, from snapshots

}  // namespace leat::scale
