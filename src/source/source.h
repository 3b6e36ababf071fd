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
#include "source/file/source_file.h"
#include "source/read_progress.h"

namespace leat {

// What a store can do by itself; what it cannot is emulated above it or refused.
struct SourceCapabilities {
  // A ranged read can demand a version. Where it cannot, the source itself does stat, read, stat
  // and answers kChanged on difference; docs/semantics.md names the window that remains.
  bool conditional_read = false;
  // Reads of which nothing is kept on disk are made at least so large. Where a request is cheap and
  // the other end has read the neighbourhood anyway, small ones stay small.
  uint64_t read_bytes_min = kBlockBytes;
  // Directories exist by themselves, also when empty (POSIX, HDFS).
  bool real_directories = false;

  bool writes = false;           // objects and directories can be written and removed
  bool write_if_absent = false;  // on what a write can depend, seen by the store itself
  bool write_if_version = false;
  bool copies = false;   // objects within the store, their bytes not coming here
  bool renames = false;  // in one step; where directories are real, those as well
  // Keys that one request removes.
  size_t removes_max = 1;
  // Of an object that is written in parts: the least bytes of all but the last, and the most parts.
  uint64_t part_bytes_min = 1;
  uint64_t parts_max = std::numeric_limits<uint64_t>::max();
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
  // Of a source that remembers answers for many: what it heard of its store so long ago will do.
  Clock::duration age_max{0};
};

struct ListRequest {
  std::string prefix;      // "" or ends in '/'
  bool recursive = false;  // false: one level, deeper keys folded into prefixes
  std::string token;       // from the page before; empty for the first
  AttemptTerms terms = {};
  Clock::duration age_max{0};  // as in StatRequest
};

// Entries of one page are sorted by key and never repeat; the prefix itself is not among them.
struct ListPage {
  std::vector<SourceObject> objects;
  std::string next_token;  // empty: that was all
  // What is there but is not among the objects: keys that cannot be addressed, things that are
  // neither file nor directory. Counted once over the pages of a listing.
  uint64_t left_out = 0;
  std::string left_out_example = {};  // one of them, as the store writes it; may be empty
  Clock::duration age{0};  // how long ago the store was asked; at most the request's age_max
};

struct ReadRequest {
  std::string key;
  ByteRange range;     // within the object; the caller knows its size
  Version if_version;  // kNone: whatever is there now
  AttemptTerms terms = {};
  uint64_t object_size = 0;  // as far as the caller knows it; 0: it does not
  // A source may tell of it what has come, and only where the answer is known to be of the version
  // that is demanded. Who passes a request on twice passes on rest_of() it.
  ReadProgress progress = {};
};

// What has not come yet of a read of which it was told how far it is; empty where all of it has.
inline ReadRequest rest_of(ReadRequest request) {
  const uint64_t done = request.progress.bytes();
  request.range = {request.range.offset + done, request.range.size - done};
  request.progress = request.progress.after(done);
  return request;
}

// For how long at most after the store was asked names may be believed.
struct NameTtl {
  Clock::duration present = Clock::duration::max();
  Clock::duration missing = Clock::duration::max();
};

// On what a write depends; neither: on nothing.
struct WriteCondition {
  bool absent = false;   // there is no such object
  Version version = {};  // it is this version
};

struct WriteRequest {
  std::string key;
  WriteCondition condition = {};
  AttemptTerms terms = {};
};

struct CopyRequest {
  std::string from, to;
  bool if_absent = false;
  AttemptTerms terms = {};
};

struct RenameRequest {
  std::string from, to;
  AttemptTerms terms = {};
};

struct RemoveRequest {
  std::vector<std::string> keys;
  AttemptTerms terms = {};
};

// An object that is written in parts, and that nobody sees before it is finished. One call at a
// time. A writer that is neither finished nor abandoned is abandoned in the background when it is
// destroyed, as far as the store can be reached then. object_stream.h makes parts of any bytes.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;

  // Whether a part, or the end, may be asked for again after kUnavailable or kThrottled. If not,
  // nothing but abandon() is left then. The source's own attempts come before that.
  virtual bool repeats() const = 0;
  // The next part, copied or sent when the task has ended. All but the last have at least
  // part_bytes_min bytes.
  virtual Task<Result<>> append(Context context, std::span<const std::byte> part,
                                AttemptTerms terms) = 0;
  // The object is there afterwards, as Source::write tells it; its condition is looked at now.
  virtual Task<Result<SourceObject>> finish(Context context, AttemptTerms terms) = 0;
  virtual Task<Result<>> abandon(Context context, AttemptTerms terms) = 0;
};

using ObjectWriterPtr = std::unique_ptr<ObjectWriter>;

struct OpenRequest {
  std::string key;
  Version if_version;        // kNone: whatever is there now
  uint64_t object_size = 0;  // as far as the caller knows it; 0: it does not
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

  // For how long at most after they were asked for its names may be believed, whatever a mount says
  // of freshness, and unless they never change. Where a source is told of changes, and may believe
  // its names until then, that is short while it is not. Never waits.
  virtual Clock::duration names_last() const { return Clock::duration::max(); }

  // Upper bound on how long names in `directory` ("" or ending in '/') may be cached, counted from
  // when the store was asked. A source that others serve by a freshness of their own, as a mount of
  // a cluster has, returns theirs. Names that a mount calls immutable are not bounded. Never waits.
  virtual NameTtl ttl_max(std::string_view directory) const {
    static_cast<void>(directory);
    return {};
  }

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
  // long. `into` is not touched any more once the task has ended, also when it was cancelled, nor
  // is what `progress` was told of before.
  virtual Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) = 0;
  // The same into pieces of memory, filled in their order, which together are as large as the
  // range. One request where the source can; else by way of memory of its own.
  virtual Task<Result<>> read_scattered(Context context, ReadRequest request,
                                        std::vector<std::span<std::byte>> pieces);

  // Changes. Written objects are there as a whole or not at all, and replace what was there. After
  // kUnavailable, kTimedOut or kCancelled nobody knows which: a write without a condition, a copy
  // and a removal can then be asked for again. kUnsupported where the capabilities say no; that is
  // all that a source does which has none of these.

  // One object, and its directories where they are real. A key that ends in '/' makes a directory,
  // without content, and on a condition only where a source can. Tells what stat would, but the
  // mtime only where the answer has it. kExists and kChanged when a condition does not hold.
  virtual Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                           std::span<const std::byte> content);
  // The same in parts. Asks nothing of the store yet, unless a condition is one that it lacks.
  virtual Result<ObjectWriterPtr> begin_write(WriteRequest request);
  // One object, which replaces what is at `to` unless `if_absent`.
  virtual Task<Result<SourceObject>> copy(Context context, CopyRequest request);
  // A file, replacing one; or a directory, both keys ending in '/', to where nothing is.
  virtual Task<Result<>> rename(Context context, RenameRequest request);
  // All of the keys, one request after the other where one does not do; what is not there is no
  // failure. A directory has to be empty. After a failure any of them may be gone.
  virtual Task<Result<>> remove(Context context, RemoveRequest request);

  // Whether an object that is not `local` may yet be had as an open file, since another process of
  // this host has it on its disks. Never waits.
  virtual bool hands_over(const std::string& key, uint64_t object_size) const {
    static_cast<void>(key);
    static_cast<void>(object_size);
    return false;
  }
  // A `local` object, or one that is handed over, as an open file, so that many reads find its name
  // once. Null where there is none to be had: not local (any more), or too many are open; read()
  // serves it then.
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
