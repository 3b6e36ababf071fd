// SPDX-License-Identifier: Apache-2.0
// PeerChange: an invalidation of names or bytes of a mount. Documents of GET and POST
// /peer/v1/changes, both ways. Format: docs/formats/peer-protocol.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "http/message.h"

namespace leat {

inline constexpr char kChangesPath[] = "/peer/v1/changes";
inline constexpr size_t kChangesMax = 4096;  // of one document
inline constexpr uint64_t kChangesBytesMax = 32 * kMiB;
// Invalidation lease: after this time without an answer a client uses no cached names. An
// answer renews it, so kChangesWait is shorter.
inline constexpr std::chrono::milliseconds kChangesBelieved{10'000};
inline constexpr std::chrono::milliseconds kChangesWait{3'000};
inline constexpr std::chrono::milliseconds kChangesWaitMax{10'000};

struct PeerChange {
  enum class Kind : uint8_t {
    kObject,     // the object at `key` was changed, created or removed
    kDirectory,  // the names below `key`, which is "" or ends in '/'
    kAll,        // the whole mount; `key` is empty
  };
  std::string mount;
  std::string key;
  Kind kind = Kind::kAll;

  friend bool operator==(const PeerChange&, const PeerChange&) = default;
};

struct PeerChanges {
  uint64_t number = 0;  // number of the last change; unused in a POST
  std::vector<PeerChange> changes;

  friend bool operator==(const PeerChanges&, const PeerChanges&) = default;
};

std::string encode_changes(const PeerChanges& changes);
// Errors are kInvalidArgument. An unknown kind is read as kAll.
Result<PeerChanges> decode_changes(std::string_view json);

// GET …?after=N&wait-ms=M. `after` 0 subscribes from now on; it is answered at once with kAll for
// each mount.
struct ChangesQuery {
  uint64_t after = 0;
  std::chrono::milliseconds wait = kChangesWait;  // how long a receiver without news waits
};
HttpRequest to_http(const ChangesQuery& query);
// Limits the wait to kChangesWaitMax.
Result<ChangesQuery> changes_query_from(const HttpRequest& request);

}  // namespace leat
