// SPDX-License-Identifier: Apache-2.0
// SignedRegistry: a registry in which only records count that a holder of the cluster's secret
// wrote. It signs what is put, and hides every entry whose signature does not fit: readers see such
// an entry as absent. One audit line and one metric tell of each. Thread-safe.
//
// A signature covers the entry's create revision and change number (signed_record.h). A new entry's
// create revision is known only once it exists, so a put of a new key takes two changes: an empty
// value that reserves the key, then the signed value on condition that the first one still stands.
// An empty value counts as absent. Every put carries such a condition; it is retried if others
// change the entry meanwhile, unless a condition of the caller fails.
//
// A put replaces a hidden entry as if it were absent. Only an entry of an unknown secret stands in
// the way of a change that wants its key absent (kPermissionDenied): otherwise workers with
// different secrets would replace each other's records for ever.
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
  // `cluster`: its name, so that a record of another cluster is none of this one.
  static std::unique_ptr<SignedRegistry> create(std::unique_ptr<Registry> registry,
                                                std::shared_ptr<const RecordSigner> signer,
                                                std::string cluster);

  // Entries that are hidden now, as far as listings and watches have shown, by key.
  virtual std::vector<RejectedRecord> rejected() const = 0;
  // The signer has other keys: watches end with kOutOfRange, so that mirrors check all records
  // again.
  virtual void keys_changed() = 0;
  // Signs every valid record of another key than the signer's first one again. Returns how many;
  // one that is changed meanwhile is left to its writer.
  virtual Task<Result<size_t>> sign_again(Context context) = 0;
};

}  // namespace leat
