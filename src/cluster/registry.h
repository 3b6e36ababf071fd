// SPDX-License-Identifier: Apache-2.0
// Registry: the small shared state of a cluster: members, mounts, leader, jobs. Keys with small
// values are changed together under conditions. An entry may be bound to a lease. Every change has
// a revision, and a watch receives each change once and in order. Its size does not grow with the
// number of files. Thread-safe.
//
// Common errors: if no majority responds, kUnavailable. The request may or may not have been
// applied, and a retry makes sense. If the registry rejects our credentials, kPermissionDenied. The
// context causes kTimedOut and kCancelled.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

using RegistryRevision = int64_t;
using RegistryLease = int64_t;  // 0: no lease, the entry stays

struct RegistryEntry {
  std::string key{};
  std::string value{};
  RegistryRevision changed = 0;  // revision of the last change
  RegistryRevision created = 0;  // revision of the first change since the last removal
  int64_t version = 0;           // number of changes since then, 1 for the first
  RegistryLease lease = 0;

  friend bool operator==(const RegistryEntry&, const RegistryEntry&) = default;
};

struct RegistryView {
  std::vector<RegistryEntry> entries{};  // sorted by key
  RegistryRevision revision = 0;         // revision of all entries
};

struct RegistryEvent {
  enum class Kind : uint8_t { kPut, kRemoved };
  Kind kind = Kind::kPut;
  RegistryEntry entry{};  // for a removal: the key, and its revision in `changed`
};

// Changes of one or more whole revisions.
struct RegistryEvents {
  std::vector<RegistryEvent> events{};
  RegistryRevision revision = 0;  // the last revision
};

// Applied at one revision, or not at all.
struct RegistryChange {
  struct Condition {
    std::string key;
    RegistryRevision changed = 0;  // 0: the key must be absent
  };
  struct Put {
    std::string key;
    std::string value;
    RegistryLease lease = 0;
  };
  std::vector<Condition> conditions{};
  std::vector<Put> puts{};
  std::vector<std::string> removals{};
};

// An error ends the watch with that error.
using RegistrySink = std::function<Task<Result<>>(RegistryEvents)>;

class Registry {
 public:
  static constexpr size_t kValueBytesMax = 1u << 20;

  virtual ~Registry() = default;

  // Returns all entries with a key that begins with `prefix`.
  virtual Task<Result<RegistryView>> list(Context context, std::string prefix) = 0;

  // Returns the revision of the change. kVersionChanged if a condition fails, kNotFound if a lease
  // has ended, kInvalidArgument for a value over kValueBytesMax or a repeated key.
  virtual Task<Result<RegistryRevision>> commit(Context context, RegistryChange change) = 0;

  // Grants a lease. Its entries are removed after `ttl` without keep_alive() (whole seconds, at
  // least 1; a registry may extend it).
  virtual Task<Result<RegistryLease>> grant(Context context, std::chrono::seconds ttl) = 0;
  // Returns the time to live from now; kNotFound if the lease has ended.
  virtual Task<Result<std::chrono::seconds>> keep_alive(Context context, RegistryLease lease) = 0;
  // Removes the lease's entries at once. An ended lease is no error.
  virtual Task<Result<>> revoke(Context context, RegistryLease lease) = 0;

  // Passes every change after `after`, of keys that begin with `prefix`, to `sink`, until the
  // context ends or an error. First passes an empty set with revision `after`, as soon as the watch
  // has started. kOutOfRange means that the caller must list again. Either the changes after
  // `after` are compacted, or the registry is older, as after a restore from a backup.
  virtual Task<Result<>> watch(Context context, std::string prefix, RegistryRevision after,
                               RegistrySink sink) = 0;

  // A different number means that earlier listings may be stale although no revision came.
  virtual uint64_t listing_generation() const { return 0; }

  // Ends background work, so that the registry and its executor may be destroyed. No calls may
  // follow.
  virtual Task<> stop() { co_return; }
};

}  // namespace leat
