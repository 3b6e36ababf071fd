// SPDX-License-Identifier: Apache-2.0
// Registry: the little state that a cluster agrees on: who is there, what is mounted, who leads,
// what jobs there are. Keys with small values, changed together under conditions, some of them for
// as long as a lease is kept; every change has a revision, and who watches sees each change once
// and in order. Nothing in it grows with the number of files. Thread-safe.
//
// Errors, wherever nothing else is said: kUnavailable when no majority answers (worth trying again:
// whatever was asked may or may not have happened), kTimedOut and kCancelled by the context,
// kPermissionDenied when the registry does not know us or refuses.
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
using RegistryLease = int64_t;  // 0: none, the entry stays

struct RegistryEntry {
  std::string key{};
  std::string value{};
  RegistryRevision changed = 0;  // of its last change
  RegistryRevision created = 0;  // of its first one since it was last removed
  int64_t version = 0;           // changes since then, 1 for the first
  RegistryLease lease = 0;

  friend bool operator==(const RegistryEntry&, const RegistryEntry&) = default;
};

struct RegistryView {
  std::vector<RegistryEntry> entries{};  // by key
  RegistryRevision revision = 0;         // at which all of it was so
};

struct RegistryEvent {
  enum class Kind : uint8_t { kPut, kRemoved };
  Kind kind = Kind::kPut;
  RegistryEntry entry{};  // of one removed: its key, and `changed` is when
};

// Changes of one or more revisions, none of them cut in two.
struct RegistryEvents {
  std::vector<RegistryEvent> events{};
  RegistryRevision revision = 0;  // the last of them
};

// All or nothing, at one revision.
struct RegistryChange {
  struct Condition {
    std::string key;
    RegistryRevision changed = 0;  // 0: there is no such key
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

  // All keys that begin with `prefix`.
  virtual Task<Result<RegistryView>> list(Context context, std::string prefix) = 0;

  // The revision of the change. kChanged when a condition does not hold, kNotFound when a lease is
  // gone, kInvalidArgument for a value over kValueBytesMax or a key that comes twice.
  virtual Task<Result<RegistryRevision>> commit(Context context, RegistryChange change) = 0;

  // Its entries go when nobody kept it alive for `ttl` (whole seconds, at least 1; a registry may
  // make it longer).
  virtual Task<Result<RegistryLease>> grant(Context context, std::chrono::seconds ttl) = 0;
  // The time to live from now; kNotFound when it is gone.
  virtual Task<Result<std::chrono::seconds>> keep_alive(Context context, RegistryLease lease) = 0;
  // Its entries go at once. A lease that is gone is no error.
  virtual Task<Result<>> revoke(Context context, RegistryLease lease) = 0;

  // Hands every change after `after` of keys that begin with `prefix` to `sink`, until the context
  // ends or an error; before them, as soon as the watch stands, no events with `after` itself.
  // kOutOfRange: what came next after `after` is forgotten, or the registry has not come as far, as
  // one that was restored from a backup; so list again.
  virtual Task<Result<>> watch(Context context, std::string prefix, RegistryRevision after,
                               RegistrySink sink) = 0;

  // Another number than before a listing: the listing may be stale although no revision came.
  virtual uint64_t listing_generation() const { return 0; }

  // Ends what it does by itself, so that it and its executor may go; nothing is asked of it
  // afterwards.
  virtual Task<> stop() { co_return; }
};

}  // namespace leat
