// SPDX-License-Identifier: Apache-2.0
// SignedRecord: a registry entry's value with its signature in front:
//   leat-record-1 KEY-ID MAC \n value.
//
// The signature covers the cluster's name, the key, the value, and the position of this change in
// the registry's history. That position is the revision that created the entry, and the number of
// the change since then. The registry assigns both and never assigns them twice. So a record copied
// to another key, or put back after a change or a removal, has an invalid signature. Pure.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cluster/record_signer.h"
#include "cluster/registry.h"

namespace leat {

// Largest number of bytes that sign_record() adds to a value.
inline constexpr size_t kRecordHeaderBytesMax = 256;

// Position of a change in the history of one registry entry.
struct RecordPosition {
  std::string_view cluster;
  std::string_view key;
  RegistryRevision created = 0;
  int64_t version = 0;
};

std::string sign_record(const RecordSigner& signer, const RecordPosition& position,
                        std::string_view value);

enum class RecordFault : uint8_t {
  kReserved,    // Empty: the writer has reserved the key and not written the value yet.
  kUnsigned,    // No signature: written by an old Leat or a stranger.
  kUnknownKey,  // Signed with a secret that this worker does not have.
  kForged,      // The key is known but did not sign this value at this position.
};
// Completes "the registry's record KEY is ignored: ".
std::string_view to_string(RecordFault fault);

// An ignored entry.
struct RejectedRecord {
  std::string key;
  RecordFault fault = RecordFault::kUnsigned;
  RegistryRevision changed = 0;
};

struct VerifiedRecord {
  std::string value;
  std::string key_id;
};
// Returns the value of `entry` if its signature is valid.
std::expected<VerifiedRecord, RecordFault> verify_record(const RecordSigner& signer,
                                                         std::string_view cluster,
                                                         const RegistryEntry& entry);

}  // namespace leat
