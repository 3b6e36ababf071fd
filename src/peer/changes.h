// SPDX-License-Identifier: Apache-2.0
// PeerChange: something in a store is not as it was. The documents of GET and POST
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
// Who hears nothing for kChangesBelieved believes nothing of what it keeps, so answers come sooner.
inline constexpr std::chrono::milliseconds kChangesBelieved{10'000};
inline constexpr std::chrono::milliseconds kChangesWait{3'000};
inline constexpr std::chrono::milliseconds kChangesWaitMax{10'000};

struct PeerChange {
  enum class Kind : uint8_t {
    kObject,     // the one at `key`: other bytes, there, or gone
    kDirectory,  // which names `key` has below it, "" or ending in '/'
    kAll,        // everything of the mount; `key` is empty
  };
  std::string mount;
  std::string key;
  Kind kind = Kind::kAll;

  friend bool operator==(const PeerChange&, const PeerChange&) = default;
};

struct PeerChanges {
  uint64_t number = 0;  // of the last change; of nobody's in a POST
  std::vector<PeerChange> changes;

  friend bool operator==(const PeerChanges&, const PeerChanges&) = default;
};

std::string encode_changes(const PeerChanges& changes);
// kInvalidArgument. A change of a kind that is not known here is one of the kind kAll.
Result<PeerChanges> decode_changes(std::string_view json);

// GET …?after=N&wait-ms=M. `after` 0: from now on, which is answered at once with kAll for each
// mount.
struct ChangesQuery {
  uint64_t after = 0;
  std::chrono::milliseconds wait = kChangesWait;  // how long a receiver has nothing to say
};
HttpRequest to_http(const ChangesQuery& query);
// A wait is cut at kChangesWaitMax.
Result<ChangesQuery> changes_query_from(const HttpRequest& request);

}  // namespace leat
