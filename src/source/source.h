// SPDX-License-Identifier: Apache-2.0
// Source: an under-store (S3, a local directory …) behind one small interface. A source knows
// objects and prefixes of one bucket, nothing of mounts, caches or files. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/byte_range.h"
#include "model/file_info.h"
#include "model/file_ref.h"
#include "model/store_url.h"
#include "runtime/context.h"
#include "runtime/task.h"
#include "source/source_file.h"

namespace leat {

// What a store can do by itself; what it cannot is emulated above it or refused.
struct SourceCapabilities {
  // A ranged read can demand a version. Where it cannot, the source itself does stat, read, stat
  // and answers kChanged on difference; docs/semantics.md names the window that remains.
  bool conditional_read = false;
  // Directories exist by themselves, also when empty (POSIX, HDFS).
  bool real_directories = false;
};

struct SourceObject {
  std::string key;  // whole key in the bucket, no leading slash; prefixes end in '/'
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  Version version;
  std::optional<WallTime> mtime;
  // It is a file on this host's own disks: reading it costs what reading a cache there would cost.
  bool local = false;
};

// How one attempt at a store went, as far as it was seen.
struct AttemptReport {
  Clock::duration first_byte{};   // from the start to the answer's first byte; zero: none came
  Clock::duration retry_after{};  // the store's own wish; zero: it said nothing
};

// How long one attempt may be silent. Sources without a network ignore it.
struct AttemptTerms {
  std::chrono::milliseconds first_byte_max{10'000};
  std::chrono::milliseconds silence_max{10'000};  // between two pieces of an answer
  AttemptReport* report = nullptr;                // filled before the task ends, if anybody asks
};

struct StatRequest {
  std::string key;
  AttemptTerms terms = {};
};

struct ListRequest {
  std::string prefix;      // "" or ends in '/'
  bool recursive = false;  // false: one level, deeper keys folded into prefixes
  std::string token;       // from the page before; empty for the first
  AttemptTerms terms = {};
};

// Entries of one page are sorted by key and never repeat; the prefix itself is not among them.
struct ListPage {
  std::vector<SourceObject> objects;
  std::string next_token;  // empty: that was all
  // What is there but is not among the objects: keys that cannot be addressed, things that are
  // neither file nor directory. Counted once over the pages of a listing.
  uint64_t left_out = 0;
};

struct ReadRequest {
  std::string key;
  ByteRange range;     // within the object; the caller knows its size
  Version if_version;  // kNone: whatever is there now
  AttemptTerms terms = {};
};

struct OpenRequest {
  std::string key;
  Version if_version;  // kNone: whatever is there now
};

class Source {
 public:
  virtual ~Source() = default;

  virtual const StoreId& id() const = 0;
  // "s3://bucket", for people.
  virtual const std::string& name() const = 0;
  virtual const SourceCapabilities& capabilities() const = 0;
  // How many requests the store takes at a time now, at least 1; the most there is for a source
  // that has no opinion. A hint for those who ask ahead: more of them wait, nothing is refused.
  virtual unsigned window() const { return std::numeric_limits<unsigned>::max(); }

  // One object; kNotFound when there is none. A key that ends in '/' asks for a directory: a real
  // one, a marker, or anything below it. kUnsupported for a key that cannot be addressed.
  virtual Task<Result<SourceObject>> stat(Context context, StatRequest request) = 0;

  // One page of at most about 1,000 entries, each with size, version and mtime, in one request; a
  // store on this host may give a level as one page. Nothing under the prefix: an empty page, or,
  // where directories are real, kNotFound, and kNotDirectory for a file. Recursive
  // pages hold directories only where the store keeps them as such. A token stays good for ever: it
  // goes on after the last key of its page, whatever has changed meanwhile.
  virtual Task<Result<ListPage>> list(Context context, ListRequest request) = 0;

  // Fills `into` (into.size() == request.range.size) or fails: kChanged when the object is no
  // longer `if_version`, kNotFound, kOutOfRange, kUnavailable on a body that is too short or too
  // long. `into` is not touched any more once the task has ended, also when it was cancelled.
  virtual Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) = 0;

  // A `local` object as an open file, so that many reads find its name once. Null where there is
  // none to be had: not local (any more), or too many are open; read() serves it then.
  virtual Task<Result<SourceFilePtr>> open_file(Context context, OpenRequest request) {
    static_cast<void>(context);
    static_cast<void>(request);
    co_return SourceFilePtr();
  }
};

using SourcePtr = std::shared_ptr<Source>;

// Opens the store that `url` names. Checks form and options, not reachability. `salt` as in
// make_store_id. kInvalidArgument for an unknown scheme, naming the known ones, and for an unknown
// option, naming the nearest known one.
Result<SourcePtr> open_source(const StoreUrl& url, std::string_view salt = {});

}  // namespace leat
