// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "apps/cli/client/path_tree.h"
#include "apps/cli/command/command_table.h"

namespace leat {
namespace {

Result<> write_out(std::span<const std::byte> data) {
  while (!data.empty()) {
    ssize_t n = ::write(STDOUT_FILENO, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error(status_from_errno(errno, "cannot write to standard output"));
    data = data.subspan(static_cast<size_t>(n));
  }
  return {};
}

class CatCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "File, or a store's URL")->type_name("PATH")->required();
    app.add_option("--offset", offset_, "First byte (0)")->type_name("SIZE");
    app.add_option("--size", size_, "Maximum number of bytes (to the end)")->type_name("SIZE");
  }

  CommandResult<> run() override {
    LEAT_TRY(uint64_t offset, parse_bytes(offset_));
    uint64_t size = UINT64_MAX;
    if (!size_.empty()) {
      LEAT_TRY(size, parse_bytes(size_));
    }
    LEAT_TRY(Target target, open_target(path_));
    uint64_t written = 0;
    ByteSink sink = [&](std::span<const std::byte> data) -> Result<> {
      written += data.size();
      return json ? Result<>() : write_out(data);
    };
    LEAT_CHECK_OK(target.tree->read(target.path, offset, size, sink));
    if (json) print_json({{"path", target.path}, {"bytes", written}});
    return {};
  }

 private:
  std::string path_, offset_ = "0", size_;
};

}  // namespace

std::unique_ptr<Command> make_cat_command() {
  return std::make_unique<CatCommand>();
}

}  // namespace leat
