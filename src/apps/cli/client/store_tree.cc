// SPDX-License-Identifier: Apache-2.0
// A store that this process accesses directly, without daemon or cache. Keys are paths without the
// leading slash; a prefix with keys below it is a directory.
#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <deque>
#include <future>

#include "apps/cli/client/path_tree.h"
#include "runtime/executor.h"
#include "source/io_timeout.h"
#include "source/source.h"

namespace leat {
namespace {

constexpr uint64_t kPieceBytes = 8 * kMiB;
constexpr size_t kPiecesInFlight = 4;

std::string key_of(const std::string& path) {
  return path.substr(std::min<size_t>(path.size(), 1));
}

std::string prefix_of(const std::string& path) {
  std::string key = key_of(path);
  return key.empty() ? key : key + "/";
}

ListRequest one_level(const std::string& path) {
  ListRequest request;
  request.prefix = prefix_of(path);
  return request;
}

std::string last_name(std::string key) {
  if (key.ends_with('/')) key.pop_back();
  return key.substr(key.rfind('/') + 1);
}

EntryView view(const SourceObject& object) {
  EntryView entry{.name = last_name(object.key), .kind = object.kind, .mtime = object.mtime};
  if (object.kind == FileKind::kFile) {
    entry.size = object.size;
    entry.version = object.version.to_string();
  }
  return entry;
}

Task<Result<Bytes>> read_piece(SourcePtr source, ReadRequest request) {
  Buffer buffer(request.range.size);
  Result<> read = co_await source->read(Context::background(), request, buffer.span());
  if (!read) co_return Error(read.error());
  co_return Bytes(std::move(buffer));
}

class StoreTree : public PathTree {
 public:
  // A command fails within seconds if the store does not respond: only a person waits for it, and
  // needs the reason.
  explicit StoreTree(const StoreUrl& url) : source_(open_source(without_waiting(url))) {}

  std::optional<StoredObject> object_at(const std::string& path) const override {
    return StoredObject{(*source_)->id(), key_of(path)};
  }

  CommandResult<> opened() const {
    if (!source_) return std::unexpected(Failure(source_.error()));
    return {};
  }

  CommandResult<StatView> stat(const std::string& path, bool prefix_first) override {
    StatView found{.path = path, .source = name() + path};
    LEAT_TRY(SourceObject object, prefix_first ? find_prefix_first(path) : find(path));
    found.entry = view(object);
    found.entry.name = last_name(key_of(path));
    return found;
  }

  CommandResult<uint64_t> list(const std::string& path, bool, const EntryCallback& each) override {
    ListRequest request = one_level(path);
    bool any = false;
    uint64_t skipped = 0;
    do {
      Result<ListPage> page = list_page(request);
      if (!page && no_directory(path, page.error())) break;
      if (!page) return std::unexpected(Failure(page.error()));
      for (const SourceObject& object : page->objects) LEAT_CHECK_OK(each(view(object)));
      any |= !page->objects.empty();
      skipped += page->skipped;
      request.token = page->next_token;
    } while (!request.token.empty());
    if (any) return skipped;
    LEAT_TRY(SourceObject object, find(path));
    if (object.kind == FileKind::kFile) LEAT_CHECK_OK(each(view(object)));
    return skipped;
  }

  CommandResult<> read(const std::string& path, uint64_t offset, uint64_t size,
                       const ByteSink& sink) override {
    LEAT_TRY(SourceObject object, find(path));
    if (object.kind == FileKind::kDirectory) {
      return failure(StatusCode::kIsDirectory,
                     fmt::format("cannot read {}{}: it is a directory", name(), path));
    }
    if (offset > object.size) {
      return failure(StatusCode::kOutOfRange,
                     fmt::format("cannot read {}{} from {}: it has {} bytes", name(), path, offset,
                                 object.size));
    }
    ByteRange left{offset, std::min(size, object.size - offset)};
    Pieces pieces;
    while (!left.empty() || !pieces.in_flight.empty()) {
      while (!left.empty() && pieces.in_flight.size() < kPiecesInFlight) {
        pieces.in_flight.push_back(start_piece(object, left));
      }
      Result<Bytes> piece = pieces.in_flight.front().get();
      pieces.in_flight.pop_front();
      if (!piece) return std::unexpected(Failure(piece.error()));
      for (const Slice& slice : piece->slices()) LEAT_CHECK_OK(sink(slice.span()));
    }
    return {};
  }

 private:
  const std::string& name() const { return (*source_)->name(); }

  // In stores with real directories their absence is a result; in others the bucket is missing.
  bool no_directory(const std::string& path, const Status& why) const {
    return path != "/" && (*source_)->capabilities().real_directories &&
           (why.code() == StatusCode::kNotFound || why.code() == StatusCode::kNotDirectory);
  }

  static SourceObject directory_at(const std::string& path) {
    SourceObject directory;
    directory.key = prefix_of(path);
    directory.kind = FileKind::kDirectory;
    return directory;
  }

  // Finds an object, else a prefix, else an empty directory (or its marker).
  CommandResult<SourceObject> find(const std::string& path) {
    if (path == "/") return directory_at(path);
    Result<SourceObject> object = stat_key(key_of(path));
    if (object) return *object;
    if (object.error().code() != StatusCode::kNotFound) {
      return std::unexpected(Failure(object.error()));
    }
    return find_prefix(path);
  }

  CommandResult<SourceObject> find_prefix_first(const std::string& path) {
    if (path == "/") return directory_at(path);
    CommandResult<SourceObject> prefix = find_prefix(path);
    bool none = !prefix && prefix.error().status.code() == StatusCode::kNotFound;
    return none ? find(path) : prefix;
  }

  CommandResult<SourceObject> find_prefix(const std::string& path) {
    Result<ListPage> page = list_page(one_level(path));
    if (page && !page->objects.empty()) return directory_at(path);
    if (!page && !no_directory(path, page.error())) return std::unexpected(Failure(page.error()));
    if (page) {
      Result<SourceObject> marker = stat_key(prefix_of(path));
      if (marker) return directory_at(path);
      if (marker.error().code() != StatusCode::kNotFound) {
        return std::unexpected(Failure(marker.error()));
      }
    }
    return failure(StatusCode::kNotFound,
                   fmt::format("there is nothing at {}{}: no object and no prefix", name(), path));
  }

  Result<SourceObject> stat_key(std::string key) {
    return executor_.block_on((*source_)->stat(Context::background(), {std::move(key)}));
  }

  Result<ListPage> list_page(ListRequest request) {
    return executor_.block_on((*source_)->list(Context::background(), std::move(request)));
  }

  // Pieces in flight of a failed read write to their buffers until they end, so wait for them.
  struct Pieces {
    ~Pieces() {
      for (auto& piece : in_flight) piece.wait();
    }
    std::deque<std::future<Result<Bytes>>> in_flight;
  };

  std::future<Result<Bytes>> start_piece(const SourceObject& object, ByteRange& left) {
    ByteRange range{left.offset, std::min(kPieceBytes, left.size)};
    ReadRequest request{.key = object.key,
                        .range = range,
                        .if_version = object.version,
                        .object_size = object.size};
    left = {range.end(), left.size - range.size};
    return boost::asio::co_spawn(executor_.any(), read_piece(*source_, request),
                                 boost::asio::use_future);
  }

  Executor executor_{{.threads = 2, .blocking_threads = 2}};
  const Result<SourcePtr> source_;
};

}  // namespace

CommandResult<std::unique_ptr<PathTree>> make_store_tree(const StoreUrl& url) {
  auto tree = std::make_unique<StoreTree>(url);
  LEAT_CHECK_OK(tree->opened());
  return tree;
}

}  // namespace leat
