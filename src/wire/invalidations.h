// SPDX-License-Identifier: Apache-2.0
// Invalidation: names or bytes of a mount that may have changed. Documents of GET and POST
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

inline constexpr char kInvalidationsPath[] = "/peer/v1/changes";
inline constexpr size_t kInvalidationsMax = 4096;  // of one document
inline constexpr uint64_t kInvalidationsBytesMax = 32 * kMiB;
// Invalidation lease: after this time without an answer a client uses no cached names. An
// answer renews it, so kInvalidationsWait is shorter.
inline constexpr std::chrono::milliseconds kInvalidationLease{10'000};
inline constexpr std::chrono::milliseconds kInvalidationsWait{3'000};
inline constexpr std::chrono::milliseconds kInvalidationsWaitMax{10'000};

struct Invalidation {
  enum class Kind : uint8_t {
    kObject,     // the object at `key` was changed, created or removed
    kDirectory,  // the names below `key`, which is "" or ends in '/'
    kAll,        // the whole mount; `key` is empty
  };
  std::string mount;
  std::string key;
  Kind kind = Kind::kAll;

  friend bool operator==(const Invalidation&, const Invalidation&) = default;
};

struct Invalidations {
  uint64_t number = 0;  // number of the last change; unused in a POST
  std::vector<Invalidation> items;

  friend bool operator==(const Invalidations&, const Invalidations&) = default;
};

std::string encode_invalidations(const Invalidations& invalidations);
// Errors are kInvalidArgument. An unknown kind is read as kAll.
Result<Invalidations> decode_invalidations(std::string_view json);

// GET …?after=N&wait-ms=M. `after` 0 subscribes from now on; it is answered at once with kAll for
// each mount.
struct InvalidationsQuery {
  uint64_t after = 0;
  std::chrono::milliseconds wait = kInvalidationsWait;  // how long a receiver without news waits
};
HttpRequest to_http(const InvalidationsQuery& query);
// Limits the wait to kInvalidationsWaitMax.
Result<InvalidationsQuery> invalidations_query_from(const HttpRequest& request);

}  // namespace leat
