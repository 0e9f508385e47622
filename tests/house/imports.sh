#!/bin/bash
# Imports only go downward, in the order that CONTRIBUTING.md gives; a room may include itself and the rooms below. The
# rooms of engine/ have an order of their own. A header NAME_inside.h is private to its room; headers of one room must
# not include each other in a cycle.
cd "$BT_SOURCE_DIR" || exit 1

find libbetty engine problems examples '(' -name '*.[ch]' -o -name '*.cu' ')' -exec grep -HnE '^[[:space:]]*#[[:space:]]*include' {} + | awk '
BEGIN {
    n = split("base graph ops transform plan compile runtime peers export function engine", order, " ")
    for (i = 1; i <= n; i++) rank[order[i]] = i
    split("nn optim data io backend", peers, " ")
    for (i in peers) { rank[peers[i]] = rank["peers"]; peer[peers[i]] = 1 }
    allowed["nn", "io"] = 1 # weights are read from files
    n = split("hierarchy config plugin output process level traced solve step schedule state check session find_lr compare ablation grid report command", order, " ")
    for (i = 1; i <= n; i++) inner[order[i]] = i
}
function inner_room(path,    parts) { # a room of engine/, as "level"; "": not in engine/, or in no room
    if (path !~ /^engine\/[^\/]+\//) return ""
    split(path, parts, "/")
    return parts[2]
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
    if ((here, there) in allowed) next
    if (rank[there] > rank[here]) wrong(here " stands below " there)
    if (here == "engine") {
        to = inner_room(included)
        from = inner_room(file)
        if (there == "engine" && !(to in inner)) wrong("no room of engine/ is called " to)
        if (!(from in inner)) wrong("a file of engine/ stands in one of its rooms")
        if (there == "engine" && inner[to] > inner[from]) wrong("engine/" from " stands below engine/" to)
        if (included ~ /_inside\.h$/ && to != from) wrong("that header is for its own room")
        if (file ~ /\.h$/ && to == from) uses[file] = uses[file] " " included
    }
    if (peer[here] && peer[there] && here != there) wrong(here " and " there " know nothing of each other")
    if (there == "backend" && here != "backend") wrong("a backend is reached through runtime/backend.h")
}
function reaches(from, to, depth,    list, i, n) {
    if (depth > 20) return 0
    n = split(uses[from], list, " ")
    for (i = 1; i <= n; i++)
        if (list[i] == to || reaches(list[i], to, depth + 1)) return 1
    return 0
}
END {
    for (file in uses)
        if (reaches(file, file, 0)) { print file ": includes itself, by way of other headers of its room"; bad = 1 }
    if (!count) { print "no includes found: is BT_SOURCE_DIR right?"; bad = 1 }
    exit bad
}'
bad=$?

# Headers of engine/ are read in full, so they are short; and engine/ only contains rooms.
while IFS= read -r header; do
    lines=$(wc -l <"$header")
    if [ "$lines" -gt 150 ]; then echo "$header: $lines lines; a header of engine/ has at most 150"; bad=1; fi
done < <(find engine -name '*.h')
files=$(find engine -maxdepth 1 -type f | wc -l)
if [ "$files" -gt 3 ]; then echo "engine/ itself has $files files; they belong into its rooms"; bad=1; fi
exit $bad
