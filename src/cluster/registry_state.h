// SPDX-License-Identifier: Apache-2.0
// RegistryState: entries, leases and latest changes of the embedded registry, without time, file or
// waiting. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "cluster/registry.h"

namespace leat {

class RegistryState {
 public:
  explicit RegistryState(size_t history_max) : history_max_(history_max) {}

  RegistryRevision revision() const { return revision_; }
  RegistryView list(const std::string& prefix) const;
  // As Registry::commit.
  Result<RegistryRevision> commit(RegistryChange change);
  RegistryLease grant();
  bool has(RegistryLease lease) const { return leases_.contains(lease); }
  // Returns true if the lease existed.
  bool revoke(RegistryLease lease);

  // Returns the changes after `after` below `prefix`, which may be none. kOutOfRange if the next
  // change was dropped.
  Result<RegistryEvents> after(const std::string& prefix, RegistryRevision after) const;

  // Revision of the last change of an entry that has no lease, or had none before.
  RegistryRevision durable_revision() const { return durable_revision_; }
  // Returns all entries without a lease as a document.
  std::string serialize() const;
  // kCorrupt if it is malformed.
  Result<> restore(const std::string& document);

 private:
  Result<> check(const RegistryChange& change) const;
  void put(RegistryChange::Put put);
  void remove(const std::string& key);
  void trim();

  size_t history_max_;
  RegistryRevision revision_ = 1;
  RegistryRevision compacted_ = 1;  // the last revision that is not in history_
  RegistryRevision durable_revision_ = 0;
  RegistryLease last_lease_ = 0;
  std::map<std::string, RegistryEntry> entries_;
  std::map<RegistryLease, std::set<std::string>> leases_;
  std::deque<RegistryEvent> history_;
};

}  // namespace leat
