// SPDX-License-Identifier: Apache-2.0
// RegistryState: entries, leases and the last changes of the embedded registry, without time, file
// or waiting. Not thread-safe.
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
  // Whether there was one.
  bool drop(RegistryLease lease);

  // What changed after `after` below `prefix`; no events where nothing did. kOutOfRange when the
  // next change after it is forgotten.
  Result<RegistryEvents> after(const std::string& prefix, RegistryRevision after) const;

  // The last change of what has no lease, or had none before it.
  RegistryRevision kept_revision() const { return kept_revision_; }
  // Whatever has no lease, as a document.
  std::string saved() const;
  // kCorrupt when it is none.
  Result<> restore(const std::string& document);

 private:
  Result<> check(const RegistryChange& change) const;
  void put(RegistryChange::Put put);
  void remove(const std::string& key);
  void trim();

  size_t history_max_;
  RegistryRevision revision_ = 1;
  RegistryRevision forgotten_ = 1;  // the last revision that is not in history_
  RegistryRevision kept_revision_ = 0;
  RegistryLease last_lease_ = 0;
  std::map<std::string, RegistryEntry> entries_;
  std::map<RegistryLease, std::set<std::string>> leases_;
  std::deque<RegistryEvent> history_;
};

}  // namespace leat
