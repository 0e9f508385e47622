#!/bin/bash
# Imports run downward only, in the order that CONTRIBUTING.md gives; a room may include itself and what stands below.
cd "$BT_SOURCE_DIR" || exit 1

find libbetty engine problems examples -name '*.[ch]' -exec grep -HnE '^[[:space:]]*#[[:space:]]*include' {} + | awk '
BEGIN {
    n = split("base graph ops transform plan runtime peers engine", order, " ")
    for (i = 1; i <= n; i++) rank[order[i]] = i
    split("nn optim data io backend", peers, " ")
    for (i in peers) rank[peers[i]] = rank["peers"]
}
function room(path,    parts) {
    sub(/^libbetty\//, "", path)
    split(path, parts, "/")
    return parts[1]
}
function wrong(why) { print line ": " why; bad = 1 }
{
    line = $0
    split($0, part, ":")
    file = part[1]
    here = room(file)
    included = $0
    if (!match(included, /[<"][^>"]*[>"]/)) { wrong("not an include that can be read"); next }
    form = substr(included, RSTART, 1)
    included = substr(included, RSTART + 1, RLENGTH - 2)
    count++

    if (file ~ /^libbetty\/include\//) {
        if (form == "\"") wrong("a public header includes only <betty/...> and the C library")
        else if (index(included, "/") && included !~ /^betty\//) wrong("a public header includes only <betty/...> and the C library")
        next
    }
    if (file ~ /^(problems|examples)\//) {
        if (form == "\"") wrong("a user program includes only <betty/...> and the system")
        next
    }
    if (form == "<") next
    if (included !~ /\//) { wrong("name the folder too: \"room/file.h\""); next }
    there = room(included)
    if (!(there in rank)) { wrong("no room of the house is called " there); next }
    if (!(here in rank)) { wrong("no room of the house is called " here); next }
    if (rank[there] > rank[here]) wrong(here " stands below " there)
    if (there == "backend" && here != "backend") wrong("a backend is reached through runtime/backend.h")
}
END {
    if (!count) { print "no includes found: is BT_SOURCE_DIR right?"; bad = 1 }
    exit bad
}'
