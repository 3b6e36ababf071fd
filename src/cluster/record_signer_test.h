// SPDX-License-Identifier: Apache-2.0
// KnownKeys: a test signer that uses its keys' names as keys. Contains no secret.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "base/id128.h"
#include "cluster/record_signer.h"

namespace leat::testing {

class KnownKeys : public RecordSigner {
 public:
  explicit KnownKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  void set(std::vector<std::string> keys) {
    std::lock_guard lock(mutex_);
    keys_ = std::move(keys);
  }
  RecordSignature sign(std::string_view text) const override {
    std::lock_guard lock(mutex_);
    return {keys_.front(), mac(keys_.front(), text)};
  }
  Verdict verify(std::string_view text, const RecordSignature& signature) const override {
    std::lock_guard lock(mutex_);
    if (std::ranges::find(keys_, signature.key_id) == keys_.end()) return Verdict::kUnknownKey;
    return mac(signature.key_id, text) == signature.mac ? Verdict::kValid : Verdict::kInvalid;
  }

 private:
  static std::string mac(std::string_view key, std::string_view text) {
    const std::string_view parts[] = {key, text};
    return Id128::digest(parts).to_hex();
  }

  mutable std::mutex mutex_;
  std::vector<std::string> keys_;
};

}  // namespace leat::testing
