#!/bin/bash
# docs/ini-reference.md is what the table of keys says.
[ -x "${BETTY_RUN:-}" ] || { echo "skipped: there is no betty-run"; exit 77; }
"$BETTY_RUN" --help-keys=markdown | diff "$BT_SOURCE_DIR/docs/ini-reference.md" - && exit 0
echo 'write it anew: build/betty-run --help-keys=markdown >docs/ini-reference.md'
exit 1
