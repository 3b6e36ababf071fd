// SPDX-License-Identifier: Apache-2.0
// RecordSigner: signs texts with a key shared by all workers of a cluster, and verifies such
// signatures. This module holds no secret; the module with the secrets creates the signer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace leat {

struct RecordSignature {
  // Both are words without blanks.
  std::string key_id{};
  std::string mac{};
};

// Thread-safe.
class RecordSigner {
 public:
  enum class Verdict : uint8_t {
    kValid,
    kUnknownKey,  // no key has this id
    kInvalid,     // the key is known, and did not sign this text
  };

  virtual ~RecordSigner() = default;
  // Signs with the first key.
  virtual RecordSignature sign(std::string_view text) const = 0;
  // Checks with the key that the signature names.
  virtual Verdict verify(std::string_view text, const RecordSignature& signature) const = 0;
};

}  // namespace leat
