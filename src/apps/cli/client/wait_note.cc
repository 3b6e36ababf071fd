// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/client/wait_note.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include "apps/cli/command/command.h"
#include "frontends/admin/codec.h"

namespace leat {
namespace {

constexpr auto kFirstDelay = std::chrono::seconds(2);
constexpr auto kInterval = std::chrono::seconds(1);

}  // namespace

std::optional<std::string> wait_text(const Json& status) {
  Result<DaemonStatus> host = from_json<DaemonStatus>(status);
  if (!host || host->unavailable.empty()) return std::nullopt;
  const UnavailableView& store = host->unavailable.front();
  return fmt::format("waiting for {}, which does not answer: {}", store.store, store.reason);
}

WaitNote::WaitNote(std::function<std::optional<Json>()> status)
    : thread_([status = std::move(status)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any ended;
        std::unique_lock lock(mutex);
        auto pause = std::chrono::milliseconds(kFirstDelay);
        while (!ended.wait_for(lock, stop, pause, [&stop] { return stop.stop_requested(); })) {
          if (stop.stop_requested()) return;
          pause = kInterval;
          const std::optional<Json> now = status();
          const std::optional<std::string> text = now ? wait_text(*now) : std::nullopt;
          if (!text) continue;
          note(*text);
          return;
        }
      }) {}

}  // namespace leat
