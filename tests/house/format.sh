#!/bin/bash
# Sources are formatted as .clang-format says, by the version that the project is formatted with.
command -v clang-format-14 >/dev/null || { echo "skipped: clang-format-14 is not installed"; exit 77; }
exec "$BT_SOURCE_DIR/dev" format --check
