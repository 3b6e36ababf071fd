// SPDX-License-Identifier: Apache-2.0
// StoreFault: one way in which a store, or a machine before it, fails a request.
#pragma once

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "source/s3_request_test.h"
#include "source/store_answer_test.h"

namespace leat::testing {

struct StoreFault {
  enum class Kind : uint8_t {
    kNone,
    kSlowDown,         // 503 SlowDown, with Retry-After where `time` is not zero
    kTooMany,          // 429, likewise
    kInternalError,    // 500
    kUnavailable,      // 503, not for throttling
    kStall,            // stalls from some byte on
    kDrip,             // a few bytes at a time
    kCut,              // closes from some byte on
    kReset,            // like kCut, with RST
    kHangUp,           // closes after a response that announced keep-alive
    kTrailing,         // bytes after the response
    kGarbage,          // a response that is not HTTP
    kInvalidHeader,    // an invalid head
    kHugeHead,         // a head of 70 kB
    kShortLength,      // head and body shorter than requested
    kLongLength,       // a head that announces more than is sent
    kWrongRange,       // another range of the object
    kWrongEtag,        // another version under the demanded etag
    kWholeObject,      // 200 with everything
    kAnotherAnswer,    // the response to another request
    kCorruptListing,   // a 200 that is no listing, or a part of one
    kOverwriteBefore,  // the object was just overwritten
    kOverwriteWithin,  // it is overwritten during the response
    kCount
  };
  static constexpr std::array<const char*, static_cast<size_t>(Kind::kCount)> kNames = {
      "none",         "slow down",       "too many",     "internal error",
      "unavailable",  "stall",           "drip",         "cut",
      "reset",        "hang up",         "trailing",     "garbage",
      "bad header",   "huge head",       "short length", "long length",
      "wrong range",  "wrong etag",      "whole object", "another answer",
      "corrupt list", "overwrite first", "overwrite mid"};

  Kind kind = Kind::kNone;
  uint64_t salt = 0;  // decides the details: position, variant
  std::chrono::milliseconds time{};

  const char* name() const { return kNames.at(static_cast<size_t>(kind)); }

  // Whether the fault can hit such a request and be detected. No client can detect another object's
  // size or bytes if nothing in the response shows it.
  bool befalls(const S3Request& request) const {
    switch (kind) {
      case Kind::kShortLength:
      case Kind::kLongLength:
        return !request.is_head();
      case Kind::kWrongRange:
      case Kind::kWholeObject:
      case Kind::kOverwriteWithin:
        return request.is_read();
      case Kind::kWrongEtag:
        return request.is_read() && !request.header("if-match").empty();
      case Kind::kOverwriteBefore:
        return !request.is_listing();
      case Kind::kCorruptListing:
        return request.is_listing();
      case Kind::kAnotherAnswer:
        // A later page that has only this prefix also ends this prefix's names.
        return request.is_read() || (request.is_listing() && !request.parameter("prefix").empty() &&
                                     request.parameter("continuation-token").empty() &&
                                     request.parameter("start-after").empty());
      default:
        return true;
    }
  }

  // Position in a response: before it, in its head or in its body.
  size_t position(size_t head, size_t body) const {
    const uint64_t within = salt / 3;
    if (salt % 3 == 0) return 0;
    if (salt % 3 == 1 || body == 0) return within % head;
    return head + within % body;
  }

  // A listing after the fault's corruption.
  std::string corrupted(const std::string& listing) const {
    switch (salt % 7) {
      case 0:
        return "<html><head><title>Busy</title></head><body><p>Come back later.</p></body></html>";
      case 1:
        return "";
      case 2: {  // cut between two entries
        const size_t at = listing.rfind("<Contents>");
        return listing.substr(0, at == std::string::npos ? listing.size() / 2 : at);
      }
      case 3:
        return std::string(listing).replace(listing.find("<KeyCount>") + 4, 2, "\x01<");
      case 4:
        return "{\"message\": \"not here\"}";
      case 5:
        return "<?xml version=\"1.0\"?><Error><Code>InternalError</Code><Message>Try again."
               "</Message></Error>";
      default:
        return listing.substr(0, salt / 7 % listing.size());
    }
  }
};

}  // namespace leat::testing
