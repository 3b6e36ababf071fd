// SPDX-License-Identifier: Apache-2.0
#include "apps/client/wait_note.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include "apps/command.h"
#include "doors/admin/codec.h"

namespace leat {
namespace {

constexpr auto kFirst = std::chrono::seconds(2);
constexpr auto kAgain = std::chrono::seconds(1);

}  // namespace

std::optional<std::string> wait_text(const Json& status) {
  Result<HostStatus> host = from_json<HostStatus>(status);
  if (!host || host->unavailable.empty()) return std::nullopt;
  const UnavailableView& store = host->unavailable.front();
  return fmt::format("waiting for {}, which does not answer: {}", store.store, store.reason);
}

WaitNote::WaitNote(std::function<std::optional<Json>()> status)
    : thread_([status = std::move(status)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any ended;
        std::unique_lock lock(mutex);
        auto pause = std::chrono::milliseconds(kFirst);
        while (!ended.wait_for(lock, stop, pause, [&stop] { return stop.stop_requested(); })) {
          if (stop.stop_requested()) return;
          pause = kAgain;
          const std::optional<Json> now = status();
          const std::optional<std::string> text = now ? wait_text(*now) : std::nullopt;
          if (!text) continue;
          note(*text);
          return;
        }
      }) {}

}  // namespace leat
