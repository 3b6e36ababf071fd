// SPDX-License-Identifier: Apache-2.0
// Requests that change a store through a worker, both ways: a write, whole or in pieces, and
// changes of names and attributes. Format: docs/formats/peer-protocol.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id128.h"
#include "base/status.h"
#include "base/units.h"
#include "http/message.h"
#include "source/source.h"

namespace leat {

inline constexpr char kWritePath[] = "/peer/v1/write";
inline constexpr char kChangePath[] = "/peer/v1/change";
// Content of one request. Larger objects are written in pieces.
inline constexpr uint64_t kWriteBytesMax = 4 * kMiB;
// Keys of one change.
inline constexpr size_t kChangeKeysMax = 1000;

// One piece of an object that is written in several requests, all to one worker.
struct WritePiece {
  enum class Step : uint8_t {
    kAppend,    // more pieces follow
    kComplete,  // the last piece; the object becomes visible
    kAbort,     // no object is written; has no content
  };
  Id128 write{};        // Random id of the write; the piece at offset 0 begins it.
  uint64_t offset = 0;  // of the piece in the object
  Step step = Step::kAppend;

  friend bool operator==(const WritePiece&, const WritePiece&) = default;
};

struct PeerWrite {
  std::string mount{};  // path in the cluster's namespace
  StoreId store{};
  std::string key{};  // in the store; ends in '/' for a directory
  WriteCondition condition{};
  PosixAttributes attributes{};
  std::optional<WritePiece> piece{};  // nothing: the content is the whole object
  // ClusterMount::write_copies; set by the receiver, so not sent.
  uint32_t copies = 0;
};

// kFlush changes nothing: it waits until the store has what was written at and below a key, or in
// the mount without one.
enum class ChangeOp : uint8_t { kCopy, kRename, kRemove, kSetAttributes, kFlush };
std::string_view to_string(ChangeOp op);  // "copy", "rename", "remove" …

struct PeerChange {
  ChangeOp op = ChangeOp::kRemove;
  std::string mount{};
  StoreId store{};
  std::vector<std::string> keys{};  // copy and rename: the old one and the new one
  bool exclusive = false;           // copy and rename: the new name must be unused
  PosixAttributes attributes{};     // to set
  uint32_t copies = 0;              // as in PeerWrite
};

// Requests are unsigned and have no PeerRequestHeader. Reading is strict: kInvalidArgument names
// the fault, and kCorrupt means that the content does not have its checksum.
HttpRequest to_http(const PeerWrite& request, std::span<const std::byte> content);
Result<PeerWrite> write_from(const HttpRequest& request);
HttpRequest to_http(const PeerChange& request);
Result<PeerChange> change_from(const HttpRequest& request);

// An answer without an object is that to a piece, a removal or a rename.
std::string encode_change_answer(const SourceObject& object);
Result<SourceObject> decode_change_answer(std::string_view json);

}  // namespace leat
