// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace leat::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = [] {
    auto made =
        std::make_shared<spdlog::logger>("leat", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::warn);
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %l %v");
    return made;
  }();
  return instance;
}

}  // namespace

void set_up(const Options& options) {
  if (!options.file.empty()) {
    logger() = std::make_shared<spdlog::logger>(
        "leat", std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file));
    logger()->set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %l %v");
  }
  logger()->set_level(to_spdlog(options.level));
  logger()->flush_on(spdlog::level::info);
}

void set_level(Level level) {
  logger()->set_level(to_spdlog(level));
}

bool enabled(Level level) {
  return logger()->should_log(to_spdlog(level));
}

void write(Level level, std::string_view text) {
  logger()->log(to_spdlog(level), text);
}

}  // namespace leat::log
