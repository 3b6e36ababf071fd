// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: new files that are sent while programs write them.
#include <limits>
#include <utility>

#include "catalog/mount_table.h"
#include "vfs/writing/staged/part_stream.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {

WriteCondition WritableFileSystem::compared_condition(WriteCondition condition,
                                                      const SourceCapabilities& store) {
  condition.absent = condition.absent && store.write_if_absent;
  if (!store.write_if_version) condition.version = {};
  return condition;
}

void WritableFileSystem::stream_written(const WrittenNodePtr& node) {
  std::shared_ptr<StagedFile> content;
  std::shared_ptr<PartStream> stream;
  {
    std::lock_guard lock(nodes_.mutex());
    content = node->staged;
    stream = node->stream;
  }
  if (!content || content->written_in_order() < PartStream::kBeginBytes) return;
  if (!stream) stream = begin_stream(node, content);
  if (stream) stream->advance(executor_, fills_, fills_stop_.get_token());
}

std::shared_ptr<PartStream> WritableFileSystem::begin_stream(
    const WrittenNodePtr& node, const std::shared_ptr<StagedFile>& content) {
  const Result<Place> place = place_of_node(node);
  if (!place) return nullptr;
  const SourceCapabilities store = place->capabilities();
  // A store without parts, or a cluster, gets the file as one stream at its close.
  const bool has_parts = store.parts_max != std::numeric_limits<uint64_t>::max();
  if (!has_parts || mode_of(*place) != WriteMode::kThrough) {
    content->end_order();
    return nullptr;
  }
  std::lock_guard lock(nodes_.mutex());
  const bool is_plain = node->linked && !node->conflicted && node->links.value_or(1) <= 1;
  if (!is_plain || node->attempted || node->staged != content || node->stream) return node->stream;
  WriteRequest request{
      .key = place->key, .condition = condition_of(*node), .attributes = attributes_of(*node)};
  WriteCondition compared = compared_condition(request.condition, store);
  node->stream = PartStream::begin(place->mount->source, store, std::move(request),
                                   std::move(compared), content, streams_);
  return node->stream;
}

void WritableFileSystem::end_stream(WrittenNode& node) {
  if (!node.stream) return;
  if (const std::optional<WallTime> last = node.stream->last_write()) {
    node.mtime = node.ctime = *last;
  }
  std::exchange(node.stream, nullptr)->stop();
  // Bytes were taken from it, so no other upload begins.
  if (node.staged) node.staged->end_order();
}

std::shared_ptr<PartStream> WritableFileSystem::take_stream(
    WrittenNode& node, std::shared_ptr<PartStream> stream,
    const std::shared_ptr<StagedFile>& content, WriteRequest& request) {
  if (!stream || stream->fits(request, content.get())) return stream;
  stream->stop();
  std::lock_guard lock(nodes_.mutex());
  const std::optional<WallTime> last = stream->last_write();
  if (last && (!node.mtime || *node.mtime < *last)) node.mtime = node.ctime = *last;
  request.attributes = attributes_of(node);
  return nullptr;
}

}  // namespace leat
