#!/bin/bash
# All mutants fit the sources, and two of them are killed: which ones, the commit says (CONTRIBUTING.md).
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
exec python3 "$BT_SOURCE_DIR/tests/mutants/run.py" --sample 2
