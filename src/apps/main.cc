// SPDX-License-Identifier: Apache-2.0
#include "apps/cli.h"

int main(int argc, char** argv) {
  return leat::run_cli(argc, argv);
}
