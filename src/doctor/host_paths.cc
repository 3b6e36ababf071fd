// SPDX-License-Identifier: Apache-2.0
#include "doctor/host_paths.h"

#include <fstream>

#include "base/read_file.h"

namespace leat {

std::string whole_text(const std::string& path) {
  return read_file(path).value_or("");
}

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace leat
