// SPDX-License-Identifier: Apache-2.0
#include "telemetry/trace.h"

namespace leat {
namespace {

// Enough for a typical request.
constexpr size_t kSpansUsual = 8;

}  // namespace

// A lost span gets the index behind the last one; end() and note() ignore it.
uint32_t Trace::append(Span span) {
  std::lock_guard lock(mutex_);
  if (spans_.size() == kSpansMax) {
    ++lost_;
    return kSpansMax;
  }
  if (spans_.empty()) spans_.reserve(kSpansUsual);
  if (span.parent >= spans_.size()) span.parent = Span::kTop;
  spans_.push_back(std::move(span));
  return static_cast<uint32_t>(spans_.size() - 1);
}

uint32_t Trace::begin(uint32_t parent, const char* what) {
  return append({.what = what,
                 .parent = parent,
                 .begin = std::chrono::steady_clock::now(),
                 .end = Span::Time::max()});
}

void Trace::end(uint32_t span) {
  const Span::Time now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  if (span < spans_.size()) spans_[span].end = now;
}

void Trace::note(uint32_t span, std::string text) {
  std::lock_guard lock(mutex_);
  if (span < spans_.size()) spans_[span].note = std::move(text);
}

void Trace::add(uint32_t parent, const char* what, Span::Time begin, Span::Time end,
                std::string note) {
  append({.what = what, .parent = parent, .begin = begin, .end = end, .note = std::move(note)});
}

void Trace::adopt(const Trace& other, uint32_t parent) {
  std::vector<Span> theirs = other.spans();
  std::vector<uint32_t> places;
  for (Span& span : theirs) {
    span.parent = span.parent == Span::kTop ? parent : places[span.parent];
    places.push_back(append(std::move(span)));
  }
}

std::vector<Span> Trace::spans() const {
  std::lock_guard lock(mutex_);
  return spans_;
}

uint64_t Trace::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace leat
