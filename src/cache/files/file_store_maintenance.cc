// SPDX-License-Identifier: Apache-2.0
// FileStore: scrub and list.
#include <algorithm>

#include "base/crc32c.h"
#include "cache/files/file_store.h"
#include "cache/scrub_limiter.h"

namespace leat {

std::vector<FileStore::FilePtr> FileStore::in_order(
    const std::function<bool(const FileId&)>& wanted) const {
  std::vector<FilePtr> files;
  for (const Shard& part : shards_) {
    std::lock_guard lock(part.mutex);
    for (const auto& [id, file] : part.files) {
      if (wanted(id)) files.push_back(file);
    }
  }
  std::ranges::sort(files, {}, [](const FilePtr& file) { return file->id; });
  return files;
}

Task<> FileStore::scrub(uint8_t folder, ScrubLimiter& limiter) {
  std::vector<FilePtr> files =
      in_order([folder](const FileId& id) { return id.bytes[0] == folder; });
  for (FilePtr& file : files) {
    if (limiter.ended()) co_return;
    // Drops the reference early, so that the file may be evicted meanwhile.
    FilePtr now = std::exchange(file, nullptr);
    if (now->doomed() || !now->created->ready()) continue;
    co_await scrub_file(now, limiter);
    limiter.object_done();
  }
}

Task<> FileStore::scrub_file(FilePtr file, ScrubLimiter& limiter) {
  Result<FilePairPtr> files = co_await directory_->descriptors.open(Context::background(), file);
  if (!files) {
    if (!file->doomed()) directory_->report_unverified(file->data_name(), files.error());
    co_return;  // a later read detects whether it is lost
  }
  std::shared_ptr<Disk> disk = directory_->disk;
  const BlockRun all{0, file->blocks()};
  // Read before the checksums: a file that becomes complete later may have more of them.
  const bool whole = file->published();
  Result<ObjectMeta> meta =
      co_await directory_->blocking([&] { return read_meta(*file, **files); });
  if (file->doomed()) co_return;
  if (!meta) {
    if (!lost_by_read(meta.error())) {
      directory_->report_unverified(file->side_name(), meta.error());
      co_return;
    }
    Result<Bytes> gone =
        co_await drop_corrupt(file, nullptr, file->data_name(), all, meta.error().to_string());
    static_cast<void>(gone);
    co_return;
  }
  const uint64_t piece_blocks = kScrubPieceBytes / kBlockBytes;
  for (uint64_t first = 0; first < all.end && !file->doomed(); first += piece_blocks) {
    const BlockRun run{first, std::min(first + piece_blocks, all.end)};
    Result<ScrubResult> found = co_await directory_->blocking(
        [&] { return Result<ScrubResult>(compare(*file, **files, *meta, run, whole)); });
    if (!found) co_return;
    if (!found->why.empty()) {
      Result<Bytes> gone =
          co_await drop_corrupt(file, *files, meta->ref.key, found->wrong, std::move(found->why));
      static_cast<void>(gone);
    } else {
      note_compared(file, run, *meta, found->matched);
    }
    if (!co_await limiter.read(found->bytes)) co_return;
  }
}

// Blocks that were written after the comparison remain unverified.
void FileStore::note_compared(const FilePtr& file, BlockRun run, const ObjectMeta& meta,
                              const CachedFile::Checks& matched) {
  std::optional<CachedFile::Checks> open = file->checks(run);
  if (!open && file->load_checksums(meta.blocks)) open = file->checks(run);
  if (!open) return;
  std::erase_if(*open, [&](const CachedFile::Check& check) {
    return std::ranges::find(matched, check) == matched.end();
  });
  if (!open->empty()) note_matched(file, *open);
}

Result<ObjectMeta> FileStore::read_meta(const CachedFile& file, const FilePair& files) const {
  Buffer bytes(align_up(file.record_offset(file.blocks()), kPageBytes));
  LEAT_TRY(size_t got, directory_->disk->read_now(files.side.fd(), bytes.span(), 0));
  LEAT_TRY(ObjectMeta meta, ObjectMeta::decode(bytes.span().first(got)));
  if (meta.ref.id != file.id) {
    return error(StatusCode::kCorrupt, "the .meta file belongs to another object");
  }
  return meta;
}

// Returns true if the disk can read at all now. If not, a failed read says nothing about the
// bytes it wanted.
bool FileStore::can_read(const FilePair& files) const {
  Buffer page(kPageBytes);
  return directory_->disk->read_now(files.side.fd(), page.span(), 0).has_value();
}

// A block without a checksum on disk is an error only in a complete file.
FileStore::ScrubResult FileStore::compare(const CachedFile& file, const FilePair& files,
                                          const ObjectMeta& meta, BlockRun run, bool whole) const {
  ScrubResult found;
  const auto recorded = [&](uint64_t block) { return meta.blocks[block].has_value(); };
  if (whole) {
    for (uint64_t block = run.first; block < run.end; ++block) {
      if (!recorded(block))
        return {.wrong = {block, block + 1}, .why = "the .meta file lacks its checksum"};
    }
  }
  uint64_t first = run.first, end = run.end;
  while (first < end && !recorded(first)) ++first;
  while (end > first && !recorded(end - 1)) --end;
  if (first == end) return found;
  const ByteRange range = BlockRun{first, end}.bytes(file.size());
  Buffer bytes(align_up(range.size, kPageBytes));
  Result<size_t> got = directory_->disk->read_now(files.data.fd(), bytes.span(), range.offset);
  if (!got && (!lost_by_read(got.error()) || !can_read(files))) {
    directory_->report_unverified(file.data_name(), got.error());
    return found;
  }
  if (!got) return {.wrong = {first, end}, .why = got.error().to_string()};
  found.bytes = *got;
  if (*got < range.size) return {.wrong = {first, end}, .why = "the file is cut short"};
  for (uint64_t block = first; block < end; ++block) {
    const BlockRun one{block, block + 1};
    if (!recorded(block) || !file.present(one)) continue;
    const ByteRange place = one.bytes(file.size());
    const auto span = bytes.span().subspan(place.offset - range.offset, place.size);
    if (crc32c(span) != *meta.blocks[block]) {
      found.wrong = one;
      found.why = "its checksum differs on the disk";
      return found;
    }
    found.matched.push_back({block, *meta.blocks[block]});
  }
  return found;
}

Result<std::optional<CachedObject>> FileStore::describe(const CachedFile& file) const {
  LEAT_TRY(Buffer bytes, directory_->disk->read_file(directory_->path(file.side_name()),
                                                     file.record_offset(file.blocks())));
  LEAT_TRY(ObjectMeta meta, ObjectMeta::decode(bytes.span()));
  const uint64_t cached = file.present_bytes();
  if (cached == 0 || meta.ref.id != file.id) return std::nullopt;
  return CachedObject{.ref = std::move(meta.ref),
                      .cached_bytes = cached,
                      .packed = false,
                      .complete = file.published()};
}

std::optional<FileId> FileStore::list(std::optional<FileId> after, size_t limit,
                                      std::vector<CachedObject>& into) const {
  std::optional<FileId> last = after;
  // One folder at a time.
  for (unsigned folder = after ? after->bytes[0] : 0; folder < 256; ++folder) {
    const std::vector<FilePtr> files = in_order(
        [&](const FileId& id) { return id.bytes[0] == folder && (!after || *after < id); });
    for (const FilePtr& file : files) {
      if (into.size() >= limit) return last;
      last = file->id;
      Result<std::optional<CachedObject>> found = describe(*file);
      if (found && *found) into.push_back(**std::move(found));
    }
  }
  return std::nullopt;
}

}  // namespace leat
