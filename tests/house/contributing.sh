#!/bin/bash
# CONTRIBUTING.md is right about where things are: every path in backticks in its tables, every folder and every room in
# its lists exists.
cd "$BT_SOURCE_DIR" || exit 1
bad=0
paths=$(sed -n '/^| what | where |/,/^$/p' CONTRIBUTING.md | grep -o '`[a-z][A-Za-z_/.]*/[A-Za-z_/.]*`' | tr -d '\`' | grep -v NAME)
count=0
for path in $paths; do
    count=$((count + 1))
    [ -e "$path" ] || { echo "CONTRIBUTING.md: $path is not there"; bad=1; }
done
[ "$count" -ge 10 ] || { echo "only $count paths found in the table"; bad=1; }
for room in engine/*/ libbetty/*/; do
    case $room in libbetty/include/ | libbetty/backend/) continue ;; esac
    grep -q "^\(.* \)\?\(${room}\|${room#libbetty/}\)" CONTRIBUTING.md || { echo "CONTRIBUTING.md: nothing of $room"; bad=1; }
done
exit $bad
