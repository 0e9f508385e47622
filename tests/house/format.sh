#!/bin/bash
# Sources are formatted as .clang-format says, with the project's version of clang-format.
command -v clang-format-14 >/dev/null || { echo "skipped: clang-format-14 is not installed"; exit 77; }
exec "$BT_SOURCE_DIR/dev" format --check
