#!/bin/bash
# docs/ini-reference.md matches the output of --help-keys, which comes from the table of keys.
[ -x "${BETTY_RUN:-}" ] || { echo "skipped: there is no betty-run"; exit 77; }
"$BETTY_RUN" --help-keys=markdown | diff "$BT_SOURCE_DIR/docs/ini-reference.md" - && exit 0
echo 'to update it, run: build/betty-run --help-keys=markdown >docs/ini-reference.md'
exit 1
