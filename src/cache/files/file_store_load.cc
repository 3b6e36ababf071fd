// SPDX-License-Identifier: Apache-2.0
// FileStore: load pairs of .data and .meta from files/; inconsistent ones are removed.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cache/files/file_store.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr size_t kMetaBytesMax = (size_t{1} << 30) + 64 * kKiB;  // for an object of kFileBytesMax

struct Pair {
  std::optional<DirectoryItem> data, side;
};

// Returns the id's digits if `name` is an id in its own `folder` with `suffix`. Each id has one
// path.
std::optional<std::string> stem_of(const std::string& folder, const std::string& name,
                                   std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  std::string stem = name.substr(0, name.size() - suffix.size());
  std::optional<Id128> id = Id128::from_hex(stem);
  if (!id || id->to_hex() != stem || !stem.starts_with(folder)) return std::nullopt;
  return stem;
}

bool is_folder_name(const std::string& name) {
  return name.size() == 2 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

Result<> FileStore::load(bool clean) {
  LEAT_CHECK_OK(directory_->disk->make_directory(directory_->path("files")));
  std::vector<FilePtr> files;
  LEAT_TRY(auto folders, directory_->disk->list_directory(directory_->path("files")));
  for (const DirectoryItem& folder : folders) {
    if (folder.is_directory && is_folder_name(folder.name)) {
      LEAT_CHECK_OK(load_folder(folder.name, clean, files));
    } else {
      log_ignored(folder.name, "does not belong to the cache");
    }
  }
  // The queues continue in the order in which the files were last written.
  std::ranges::sort(files, {}, [](const FilePtr& file) { return file->birth_ns; });
  for (const FilePtr& file : files) {
    file->created->set(true);
    queues_of(*file->pool).insert(file->id, file, file->charge.bytes(), file->birth_ns);
    shard(file->id).files.emplace(file->id, file);
    // Whole, but the last run did not mark it complete.
    if (!file->published() && file->sync_point().full) queue_sync(file);
  }
  return {};
}

void FileStore::log_ignored(const std::string& name, const std::string& why) {
  log::warning("cache {}: files/{} {} and is ignored", directory_->options.directory, name, why);
}

Result<> FileStore::load_folder(const std::string& folder, bool clean, std::vector<FilePtr>& into) {
  const std::string name = "files/" + folder;
  std::atomic<bool>& changed = folders_changed_[std::stoul(folder, nullptr, 16)];
  // Changes of names by the last run may not be durable.
  if (!clean) changed = true;
  LEAT_TRY(auto items, directory_->disk->list_directory(directory_->path(name)));
  std::map<std::string, Pair> pairs;
  for (DirectoryItem& item : items) {
    if (auto data_stem = stem_of(folder, item.name, ".data")) {
      pairs[*data_stem].data = std::move(item);
    } else if (auto side_stem = stem_of(folder, item.name, ".meta")) {
      pairs[*side_stem].side = std::move(item);
    } else {
      log_ignored(folder + "/" + item.name, "does not belong to the cache");
    }
  }
  for (const auto& [stem, pair] : pairs) {
    if (!pair.data || !pair.side) {
      discard_on_disk(name + "/" + stem, "its other half is missing");
      changed = true;
      continue;
    }
    Result<FilePtr> file = load_file(name + "/" + stem, *pair.data, clean);
    if (file) {
      into.push_back(*std::move(file));
    } else if (lost_by_open(file.error())) {
      directory_->report_corrupt(stem, file.error().to_string());
      discard_on_disk(name + "/" + stem, file.error().to_string());
      changed = true;
    } else {
      const uint64_t bytes = pair.data->allocated_bytes + pair.side->allocated_bytes;
      directory_->capacity->count(bytes);
      if (auto id = Id128::from_hex(stem)) shard(FileId(*id)).unread[FileId(*id)] = bytes;
      directory_->left_behind = true;
      log_ignored(folder + "/" + stem, "cannot be read (" + file.error().to_string() + ")");
    }
  }
  return {};
}

Result<FileStore::FilePtr> FileStore::load_file(const std::string& stem, const DirectoryItem& data,
                                                bool clean) {
  LEAT_TRY(Buffer bytes,
           directory_->disk->read_file(directory_->path(stem + ".meta"), kMetaBytesMax));
  LEAT_TRY(ObjectMeta meta, ObjectMeta::decode(bytes.span()));
  if (!stem.ends_with(meta.ref.id.to_hex())) {
    return error(StatusCode::kCorrupt, "the .meta file belongs to another object");
  }
  if (data.size_bytes != meta.ref.size) {
    return error(StatusCode::kCorrupt, fmt::format("the data file has {} bytes instead of {}",
                                                   data.size_bytes, meta.ref.size));
  }
  auto file = std::make_shared<CachedFile>(meta.ref, data.modified_ns,
                                           directory_->pools.get(meta.ref.pool));
  file->restore(meta, data.allocated_bytes, clean);
  return file;
}

void FileStore::discard_on_disk(const std::string& stem, const std::string& why) {
  log::info("cache {}: removing {}: {}", directory_->options.directory, stem, why);
  for (const char* suffix : {".meta", ".data"}) {
    Result<> removed = directory_->disk->unlink(directory_->path(stem + suffix));
    if (removed || removed.error().code() == StatusCode::kNotFound) continue;
    directory_->left_behind = true;
    log::warning("cache {}: {}", directory_->options.directory, removed.error().to_string());
  }
}

}  // namespace leat
