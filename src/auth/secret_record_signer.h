// SPDX-License-Identifier: Apache-2.0
// SecretRecordSigner: signs the registry's records with keys derived from the cluster's secrets.
// The first secret signs, all of them verify. A key id identifies the secret of a signature without
// revealing it. Format: docs/formats/registry.md. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "auth/cluster_secret.h"
#include "cluster/record_signer.h"

namespace leat {

class SecretRecordSigner : public RecordSigner {
 public:
  explicit SecretRecordSigner(const SecretSet& secrets);

  RecordSignature sign(std::string_view text) const override;
  Verdict verify(std::string_view text, const RecordSignature& signature) const override;

  void set_secrets(const SecretSet& secrets);

 private:
  struct Keys {
    std::string first;  // id of the signing key
    std::map<std::string, HmacKey, std::less<>> by_id;
  };
  static std::shared_ptr<const Keys> derive(const SecretSet& secrets);
  std::shared_ptr<const Keys> keys() const;

  mutable std::mutex mutex_;  // leaf; the pointer is copied under it
  std::shared_ptr<const Keys> keys_;
};

}  // namespace leat
