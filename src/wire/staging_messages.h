// SPDX-License-Identifier: Apache-2.0
// Staged changes: writes that workers have and the store does not have yet. The log of a mount is a
// sequence of events; its messages, both ways. Format: docs/formats/peer-protocol.md.
#pragma once

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
#include "model/file_info.h"
#include "model/posix_attributes.h"
#include "model/worker_id.h"
#include "source/source.h"

namespace leat {

inline constexpr char kStagedAppendPath[] = "/peer/v1/staging/append";
inline constexpr char kStagedEventsPath[] = "/peer/v1/staging/events";
inline constexpr char kStagedReplicatePath[] = "/peer/v1/staging/replicate";
inline constexpr char kStagedContentPath[] = "/peer/v1/staging/content";
inline constexpr char kStagedSendPath[] = "/peer/v1/staging/send";
inline constexpr char kStagedWaitPath[] = "/peer/v1/staging/wait";

// Bytes of a content in one request.
inline constexpr uint64_t kStagedPieceBytesMax = 4 * kMiB;
// Events of one message.
inline constexpr size_t kStagedEventsMax = 100'000;
// Events of a request: its body is bounded.
inline constexpr size_t kStagedPartEvents = 2'000;
// Copies of a staged change, at most.
inline constexpr uint32_t kStagedCopiesMax = 4;

enum class StagedKind : uint8_t { kSave, kMakeDirectory, kRemove, kRename };

struct StagedChange {
  StagedKind kind = StagedKind::kSave;
  std::string key{};       // in the store; ends in '/' for a directory; the new one of a rename
  std::string from{};      // of a rename: the key before
  bool exclusive = false;  // of a rename: the new name must be unused

  Id128 content{};  // of a save; zero: it has no bytes
  uint64_t size = 0;
  uint32_t crc = 0;                 // CRC-32C of the content
  std::vector<WorkerId> holders{};  // workers that have the content
  PosixAttributes attributes{};
  WriteCondition condition{};
  WallTime since{};     // when it was made
  uint32_t copies = 1;  // wanted copies of the change and its content

  friend bool operator==(const StagedChange&, const StagedChange&) = default;
};

struct StagedEvent {
  enum class Kind : uint8_t {
    // A change; its number is this event's position.
    kAppend,
    // All copies of a rename are in the store, and some old names.
    kCopied,
    // The store has the change, or lost it to another writer.
    kDone,
  };
  Kind kind = Kind::kAppend;
  uint64_t position = 0;  // increases by one with each event, from 1
  uint64_t number = 0;    // the change
  StagedChange change{};  // of kAppend
  // For kDone of a save or a rename of a file: its version in the store. Not known: the store has
  // something else by now.
  Version version{};

  friend bool operator==(const StagedEvent&, const StagedEvent&) = default;
};

// Events of a log after some position, in their order.
struct StagedEvents {
  Id128 log{};
  uint64_t term = 0;
  uint64_t position = 0;  // of the last event
  // The events are all that counts: the receiver forgets what it has.
  bool is_whole = false;
  // More of such events. The position is 0 before the last part.
  bool is_part = false;
  std::vector<StagedEvent> events{};

  friend bool operator==(const StagedEvents&, const StagedEvents&) = default;
};

// Cuts whole events into parts of at most kStagedPartEvents.
std::vector<StagedEvents> parts_of(StagedEvents whole);
std::string encode_staged_events(const StagedEvents& events);
// kInvalidArgument names the fault.
Result<StagedEvents> decode_staged_events(std::string_view text);
std::string encode_staged_change(const StagedChange& change);
Result<StagedChange> decode_staged_change(std::string_view text);

// The version of a name while its change is pending, and as long after that as a reader may have
// it.
Version staged_version(const Id128& log, uint64_t number);
// Returns the number of a version of this log.
std::optional<uint64_t> staged_number(const Id128& log, const Version& version);
bool is_staged_version(const Version& version);

// To the primary: append this change. The answer is that to a write.
struct StagedAppend {
  std::string mount{};
  StoreId store{};
  StagedChange change{};
  bool until_sent = false;  // answer when the store has it
};
HttpRequest to_http(const StagedAppend& request);
Result<StagedAppend> staged_append_from(const HttpRequest& request);

// To the primary: events after that position.
struct StagedEventsRequest {
  std::string mount{};
  Id128 log{};  // of which the sender has events; zero: none
  uint64_t after = 0;
};
HttpRequest to_http(const StagedEventsRequest& request);
Result<StagedEventsRequest> staged_events_request_from(const HttpRequest& request);

// To a member of the log: make these events durable. The answer is the position.
struct StagedReplicate {
  std::string mount{};
  StoreId store{};
  StagedEvents events{};
};
HttpRequest to_http(const StagedReplicate& request);
Result<StagedReplicate> staged_replicate_from(const HttpRequest& request);

// To a holder: a piece of a content. It is durable after the last piece.
struct StagedPiece {
  Id128 content{};
  uint64_t offset = 0;
  bool is_last = false;
};
HttpRequest to_http(const StagedPiece& piece, std::span<const std::byte> bytes);
// kCorrupt if the bytes do not have their checksum.
Result<StagedPiece> staged_piece_from(const HttpRequest& request);

// To a holder: send this change to the store. The answer is that to a write.
struct StagedSend {
  std::string mount{};
  StoreId store{};
  StagedChange change{};
};
HttpRequest to_http(const StagedSend& request);
Result<StagedSend> staged_send_from(const HttpRequest& request);

// To the primary: wait a moment for changes at and below `key` (all of the mount if it is empty) up
// to `number` (0: the last one). The answer is how many are left.
struct StagedWait {
  std::string mount{};
  std::string key{};
  uint64_t number = 0;
};
HttpRequest to_http(const StagedWait& request);
Result<StagedWait> staged_wait_from(const HttpRequest& request);

}  // namespace leat
