// SPDX-License-Identifier: Apache-2.0
// SignedRegistry: a registry that accepts only records written by a holder of the cluster's secret.
// It signs each put, and hides every entry with an invalid signature: readers see it as absent.
// Each hidden entry causes one audit line and one metric. Thread-safe.
//
// A signature covers the entry's create revision and change number (signed_record.h). A new entry's
// create revision is known only once it exists. So a put of a new key takes two changes: an empty
// value that reserves the key, then the signed value on condition that the first one still stands.
// An empty value counts as absent. Every put carries such a condition; it is retried if others
// change the entry meanwhile, unless a condition of the caller fails.
//
// A put replaces a hidden entry as if it were absent. The exception is an entry of an unknown
// secret: a change that requires its key to be absent fails with kPermissionDenied. Otherwise
// workers with different secrets would replace each other's records for ever.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/record_signer.h"
#include "cluster/registry.h"
#include "cluster/signed_record.h"

namespace leat {

class SignedRegistry : public Registry {
 public:
  // `cluster` is the cluster's name, so that records of another cluster are invalid here.
  static std::unique_ptr<SignedRegistry> create(std::unique_ptr<Registry> registry,
                                                std::shared_ptr<const RecordSigner> signer,
                                                std::string cluster);

  // Returns the hidden entries seen by listings and watches, by key.
  virtual std::vector<RejectedRecord> rejected() const = 0;
  // Called after the signer's keys changed: watches end with kOutOfRange, so that caches verify
  // all records again.
  virtual void keys_changed() = 0;
  // Signs valid records again that do not use the signer's first key. Returns how many; a record
  // that changes meanwhile is left to its writer.
  virtual Task<Result<size_t>> sign_again(Context context) = 0;
};

}  // namespace leat
