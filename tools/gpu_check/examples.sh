#!/bin/bash
# The examples, made small, as tests/e2e/common.sh has them: a line for each, its name and settings with tabs between
# them; the first line is the folder of their data, which is left to the caller.
. "$BT_SOURCE_DIR/tests/e2e/common.sh" || exit 1
trap - EXIT
printf '%s\n' "$PWD"
noise_images
if [ ! -e data ]; then ln -s "$BT_SOURCE_DIR/data" data; fi
line() { local IFS=$'\t'; printf '%s\n' "$*"; }
each_example line
