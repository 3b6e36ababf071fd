// SPDX-License-Identifier: Apache-2.0
// Source: a store (S3, a local directory …) behind one small interface. A source knows the objects
// and prefixes of one bucket, but no mounts, caches or files. Thread-safe.
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
#include "model/posix_attributes.h"
#include "model/store_url.h"
#include "runtime/context.h"
#include "runtime/task.h"
#include "source/posix_files.h"
#include "source/read_progress.h"
#include "source/source_file.h"

namespace leat {

// Capabilities of a store. An unsupported operation is emulated by a layer above or rejected.
struct SourceCapabilities {
  // A ranged read can demand a version. Otherwise the source itself does stat, read, stat and
  // returns kVersionChanged on a difference; docs/semantics.md names the window that remains.
  bool conditional_read = false;
  // Minimum size of reads that are not cached on disk. It is small where a request is cheap and the
  // store reads ahead by itself.
  uint64_t read_bytes_min = kBlockBytes;
  // A listing may begin after any key, as if that were a token.
  bool lists_from_any_key = false;
  // Directories are real: they exist without objects in them (POSIX, HDFS).
  bool real_directories = false;

  bool writes = false;           // objects and directories can be written and removed
  bool write_if_absent = false;  // write conditions that the store itself evaluates
  bool write_if_version = false;
  bool copies = false;  // objects within the store; their bytes do not pass through this process
  bool copies_parts = false;  // a part of an object may be a range of another one (copy_part)
  bool renames = false;       // atomically; also of directories where those are real
  // Directories, too, where they are not real.
  bool renames_directories = false;
  // Maximum number of keys that one request removes.
  size_t removes_max = 1;
  // Keeps the attributes of a write, and stat() returns them.
  bool attributes = false;
  bool sets_attributes = false;  // of an object or a directory, without a write
  // For an object written in parts: minimum size of each part but the last, and maximum number of
  // parts.
  uint64_t part_bytes_min = 1;
  uint64_t parts_max = std::numeric_limits<uint64_t>::max();
};

struct SourceObject {
  std::string key;  // whole key in the bucket, no leading slash; prefixes end in '/'
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  Version version;
  std::optional<WallTime> mtime;
  // The object is a file on this host's own disks: a read costs what a read of a cache there costs.
  bool local = false;
  // From stat() of a store that keeps attributes; null otherwise.
  std::shared_ptr<const PosixAttributes> attributes = nullptr;
};

// Observations of one attempt at a store.
struct AttemptReport {
  Clock::duration first_byte{};   // from the start to the first byte of the response; zero: none
                                  // arrived
  Clock::duration retry_after{};  // requested by the store; zero: not given
};

// Timeouts of one attempt. Sources without a network ignore them.
struct AttemptTimeouts {
  std::chrono::milliseconds first_byte_timeout{10'000};
  std::chrono::milliseconds idle_timeout{10'000};  // between two pieces of a response
  AttemptReport* report = nullptr;                 // if not null, filled before the task ends
};

struct StatRequest {
  std::string key;
  AttemptTimeouts timeouts = {};
  // For a source that caches responses for many clients: maximum age of the metadata it may return.
  Clock::duration age_max{0};
};

struct ListRequest {
  std::string prefix;      // "" or ends in '/'
  bool recursive = false;  // false: one level, deeper keys folded into prefixes
  std::string token{};     // next_token of the previous page; empty for the first
  AttemptTimeouts timeouts = {};
  Clock::duration age_max{0};  // as in StatRequest
};

// Entries of one page are sorted by key and never repeat; the prefix itself is not among them.
struct ListPage {
  std::vector<SourceObject> objects;
  std::string next_token;  // empty: no more pages
  // Number of names that the store has but `objects` lacks: keys that cannot be addressed, things
  // that are neither file nor directory. Each is counted once over the pages of a listing.
  uint64_t skipped = 0;
  std::string skipped_example = {};  // one of them, as the store writes it; may be empty
  Clock::duration age{0};            // age of the store's listing; at most the request's age_max
};

struct ReadRequest {
  std::string key;
  ByteRange range;     // within the object; the caller knows its size
  Version if_version;  // kNone: the present version
  AttemptTimeouts timeouts = {};
  uint64_t object_size = 0;  // as far as the caller knows it; 0: unknown
  // A source may report arrived bytes to it, but only if the response is known to have the demanded
  // version. A caller that passes a request on a second time passes rest_of() it.
  ReadProgress progress = {};
};

// Returns the request for the bytes that its progress has not reported yet; empty range if all have
// arrived.
inline ReadRequest rest_of(ReadRequest request) {
  const uint64_t done = request.progress.bytes();
  request.range = {request.range.offset + done, request.range.size - done};
  request.progress = request.progress.after(done);
  return request;
}

// Upper bounds on how long names may be cached after the store returned them.
struct NameTtl {
  Clock::duration present = Clock::duration::max();
  Clock::duration missing = Clock::duration::max();
};

// Condition of a write; default: none.
struct WriteCondition {
  bool absent = false;   // there is no object with this key
  Version version = {};  // the object has this version

  friend bool operator==(const WriteCondition&, const WriteCondition&) = default;
};

struct WriteRequest {
  std::string key;
  WriteCondition condition = {};
  AttemptTimeouts timeouts = {};
  PosixAttributes attributes = {};  // of the new object; ignored by a store that keeps none
};

struct CopyRequest {
  std::string from, to;
  bool if_absent = false;
  AttemptTimeouts timeouts = {};
};

struct RenameRequest {
  std::string from, to;
  bool no_replace = false;  // a file: kExists if the new name is in use
  AttemptTimeouts timeouts = {};
};

struct AttributesRequest {
  std::string key;
  PosixAttributes attributes;  // to set; the others stay
  AttemptTimeouts timeouts = {};
};

struct RemoveRequest {
  std::vector<std::string> keys;
  AttemptTimeouts timeouts = {};
};

// Bytes of one version of an object, to be copied.
struct PartCopy {
  std::string key;
  Version version;
  ByteRange range;
};

// An object that is written in parts and is invisible before complete(). One call at a time.
// Destroying a writer that is neither completed nor aborted aborts it in the background, if the
// store can be reached then. part_writer.h cuts a stream of bytes into parts.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;

  // Whether append() or complete() may be repeated after kUnavailable or kThrottled, which the
  // source returns after its own attempts. If not, only abort() may follow.
  virtual bool is_retryable() const = 0;
  // Appends the next part, which is copied or sent when the task has ended. All parts but the last
  // have at least part_bytes_min bytes.
  virtual Task<Result<>> append(Context context, std::span<const std::byte> part,
                                AttemptTimeouts timeouts) = 0;
  // Appends a part that the store copies from a range of this version. Size and repetition are as
  // with append(). kNotFound or kVersionChanged where the object is another one by now;
  // kUnsupported without SourceCapabilities::copies_parts. A failure may also be that of an earlier
  // part, and one of this part may come with a later call.
  virtual Task<Result<>> copy_part(Context context, PartCopy from, AttemptTimeouts timeouts);
  // Completes the object and returns what Source::write returns. The condition is evaluated now.
  virtual Task<Result<SourceObject>> complete(Context context, AttemptTimeouts timeouts) = 0;
  virtual Task<Result<>> abort(Context context, AttemptTimeouts timeouts) = 0;
};

using ObjectWriterPtr = std::unique_ptr<ObjectWriter>;

struct OpenRequest {
  std::string key;
  Version if_version;        // kNone: the present version
  uint64_t object_size = 0;  // as far as the caller knows it; 0: unknown
};

// Maximum size of a small read. Small and large ones have concurrency limits of their own: the
// first wait for the store's latency, the others for its bandwidth.
inline constexpr uint64_t kSmallRequestBytes = 256 * kKiB;

class Source {
 public:
  virtual ~Source() = default;

  virtual const StoreId& id() const = 0;
  // "s3://bucket", for messages.
  virtual const std::string& name() const = 0;
  virtual const SourceCapabilities& capabilities() const = 0;
  // Returns the capabilities for changes of this key. They differ between keys where one source
  // shows several stores.
  virtual SourceCapabilities capabilities_of(std::string_view key) const {
    static_cast<void>(key);
    return capabilities();
  }
  // Returns why capabilities_of() a key has no writes, for messages.
  virtual std::string why_read_only(std::string_view key) const {
    static_cast<void>(key);
    return name() + " takes no writes";
  }
  // Number of concurrent reads of `bytes` that the store takes now, at least 1; the maximum for a
  // source without such a limit. A hint: further requests wait, none is rejected.
  virtual unsigned concurrency_hint(uint64_t bytes) const {
    static_cast<void>(bytes);
    return std::numeric_limits<unsigned>::max();
  }

  // Whether the store's last answers were failures.
  virtual bool failing() const { return false; }
  // Returns the first-byte latency that half of the stats and reads stay below lately; zero:
  // unknown.
  virtual Clock::duration first_byte_median() const { return {}; }

  // Returns how long names may be cached after the request to the store. The bound holds whatever
  // freshness the mount has, unless names never change. A source that receives invalidations
  // returns a short time while they are not live. Never waits.
  virtual Clock::duration metadata_ttl_max() const { return Clock::duration::max(); }

  // Whether this process is notified of changes, so that the kernel may be, too.
  virtual bool notifies_of_changes() const { return false; }

  // Returns how long names in `directory` ("" or ending in '/') may be cached, counted from the
  // request to the store. A source that has its own freshness, as a mount of a cluster has, returns
  // that. Names that a mount declares immutable are not bounded. Never waits.
  virtual NameTtl ttl_max(std::string_view directory) const {
    static_cast<void>(directory);
    return {};
  }

  // Returns one object; kNotFound if there is none. A key that ends in '/' names a directory: a
  // real one, a marker, or a prefix of any object. Returns kUnsupported for a key that cannot be
  // addressed.
  virtual Task<Result<SourceObject>> stat(Context context, StatRequest request) = 0;

  // Returns one page of at most about 1,000 entries, each with size, version and mtime, in one
  // request. A store on this host may return a level as one page. If nothing is under the prefix,
  // the page is empty; where directories are real, the result is kNotFound, or kNotDirectory for a
  // file. Recursive pages hold directories only if the store keeps them as such. A token does not
  // expire: it continues after the last key of its page, whatever has changed since.
  virtual Task<Result<ListPage>> list(Context context, ListRequest request) = 0;

  // Fills `into` (into.size() == request.range.size) or fails. Returns kVersionChanged if the
  // object is no longer `if_version`, kNotFound, kOutOfRange, or kUnavailable for a body that is
  // too short or too long. `into` is not written after the task ended, also when it was cancelled.
  // Bytes that were reported to `progress` are not written again.
  virtual Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) = 0;
  // Like read(), into pieces of memory that are filled in order and together have the size of the
  // range. Uses one request if the source can, else a buffer of its own.
  virtual Task<Result<>> read_scattered(Context context, ReadRequest request,
                                        std::vector<std::span<std::byte>> pieces);

  // Changes. A written object is visible as a whole or not at all, and replaces the present one.
  // After kUnavailable, kTimedOut or kCancelled the outcome is unknown. A write without a
  // condition, a copy and a removal can then be repeated. kUnsupported if the capabilities lack the
  // operation, which is what these defaults return.

  // Writes one object, and creates its directories where those are real. A key that ends in '/'
  // creates a directory without content, with a condition only if the source supports that. Returns
  // what stat() would, but the mtime only if the response has it. Returns kExists or
  // kVersionChanged if the condition does not hold.
  virtual Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                           std::span<const std::byte> content);
  // Starts a write in parts. Sends nothing yet; fails if the store does not support the condition.
  virtual Result<ObjectWriterPtr> begin_write(WriteRequest request);
  // Copies one object within the store; replaces the object at `to` unless `if_absent`.
  virtual Task<Result<SourceObject>> copy(Context context, CopyRequest request);
  // Renames a file, replacing a present one, or a directory (both keys end in '/') to an unused
  // name.
  virtual Task<Result<>> rename(Context context, RenameRequest request);
  // Sets attributes of a file or a directory. Returns what stat() would.
  virtual Task<Result<SourceObject>> set_attributes(Context context, AttributesRequest request);
  // Returns the operations of a POSIX file system; null: the store is none.
  virtual PosixFiles* posix() { return nullptr; }
  // Returns when the store has all that was written through this source at and below `key` ("" or a
  // key; all of the source if it is empty). Changes of a store itself are there when they return.
  virtual Task<Result<>> flush(Context context, std::string key) {
    static_cast<void>(context);
    static_cast<void>(key);
    co_return Result<>();
  }
  // Removes all of the keys, by several requests in sequence if needed. A missing key is not an
  // error. A directory has to be empty. After a failure any of the keys may be removed.
  virtual Task<Result<>> remove(Context context, RemoveRequest request);

  // For a cache that hosts share: whether a read of this object has missed it since the last call.
  // Nothing for a store.
  virtual std::optional<bool> take_cache_miss(const std::string& key) {
    static_cast<void>(key);
    return std::nullopt;
  }
  // Whether an object that is not `local` may still be opened as a file, because another process of
  // this host caches it on its disks. Never waits.
  virtual bool has_local_file(const std::string& key, uint64_t object_size) const {
    static_cast<void>(key);
    static_cast<void>(object_size);
    return false;
  }
  // Opens a `local` object, or one that another process passes, as a file, so that many reads look
  // its name up once. Returns null if that is not possible: not local (any more), or too many are
  // open. read() serves it then.
  virtual Task<Result<SourceFilePtr>> open_file(Context context, OpenRequest request) {
    static_cast<void>(context);
    static_cast<void>(request);
    co_return SourceFilePtr();
  }
};

using SourcePtr = std::shared_ptr<Source>;

// Opens the store of `url`. Checks form and options, not reachability. `salt` as in make_store_id.
// Returns kInvalidArgument for an unknown scheme, naming the known ones, and for an unknown option,
// naming the nearest known one.
Result<SourcePtr> open_source(const StoreUrl& url, std::string_view salt = {});

}  // namespace leat
