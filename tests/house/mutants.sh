#!/bin/bash
# All mutants apply to the sources, and two of them, chosen by the commit, are killed (CONTRIBUTING.md).
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
exec python3 "$BT_SOURCE_DIR/tests/mutants/run.py" --sample 2
