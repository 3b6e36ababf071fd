// SPDX-License-Identifier: Apache-2.0
// ChangedRanges: the parts of a content that differ from a version in the store, as far as that is
// known. StagedFile records each change before and after it, so that none is missed by a save that
// runs at the same time. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "model/byte_range.h"
#include "model/version.h"

namespace leat {

// The ranges of a content that are those of a version.
struct UnchangedRanges {
  Version version{};  // not known: there are none
  std::vector<ByteRange> ranges{};
};

class ChangedRanges {
 public:
  static constexpr uint64_t kGranuleBytes = kMiB;
  // More than the largest object has. Further ones count as changed.
  static constexpr uint64_t kGranulesMax = 8 * kMiB;

  // The content is that of the version, which has `size` bytes.
  void begin(Version version, uint64_t size);
  // Something changed that is not recorded. No version is known from now on.
  void give_up();

  void note_write(uint64_t offset, uint64_t size);
  void note_size(uint64_t size);

  // Returns what the store need not get. Until end_save(), changes are recorded as later ones.
  UnchangedRanges begin_save();
  // `saved`: the version that has the content of the save, with `size` bytes; nothing: it failed.
  void end_save(const std::optional<Version>& saved, uint64_t size);

 private:
  struct Changes {
    std::vector<bool> granules{};
    uint64_t size = std::numeric_limits<uint64_t>::max();  // smallest size of the content so far

    void add(const Changes& other);
  };

  std::vector<ByteRange> unchanged() const;

  Version version_{};
  bool gave_up_ = false;
  Changes changes_{};
  Changes saving_{};  // those before the save that runs
};

}  // namespace leat
