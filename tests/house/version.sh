#!/bin/bash
# The newest entry of CHANGELOG.md, "## VERSION (DATE)", has the version and date in libbetty/base/version.h.
cd "$BT_SOURCE_DIR" || exit 1
defined() { sed -n "s/^#define $1 \"\(.*\)\"\$/\1/p" libbetty/base/version.h; }
found=$(grep -m 1 '^## ' CHANGELOG.md)
due="## $(defined BT_VERSION) ($(defined BT_VERSION_DATE))"
[ "$found" = "$due" ] || { echo "CHANGELOG.md begins with \"$found\"; version.h says \"$due\""; exit 1; }
day=$(defined BT_VERSION_DATE)
[ "$(date -d "$day" +%F 2>/dev/null)" = "$day" ] || { echo "version.h: $day is no day"; exit 1; }
