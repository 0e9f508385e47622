# Makes a page of the manual of each public header: what its comments say is text, and its declarations are shown. With
# OUT (a folder), VERSION and DATE; writes OUT/betty.3 of betty.h, OUT/betty_NAME.3 of NAME.h, and for each function
# OUT/bt_FUNCTION.3, which leads there.
#   awk -v OUT=man3 -v VERSION=0.1.0 -v DATE=2026-01-31 -f manual.awk libbetty/include/betty/*.h

function put(text) { print text >page }

function roff(text) { # nothing in it is a request or an escape
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    sub(/^[.']/, "\\\\\\&&", text)
    return text
}

function mode(wanted) { # "text" or "code": requests between the two
    if (state == wanted) return
    if (state == "code") put(".EE\n.RE")
    if (wanted == "code") put((gap < 0 ? "" : ".PP\n") ".RS 2\n.EX")
    blank = 0
    gap = state == "code" # to what comes next
    state = wanted
}

function prose(text) {
    if (text ~ /^ *$/) {
        if (gap == 0) gap = 1
        return
    }
    if (gap == 1) put(".PP")
    gap = 0
    if (text ~ /^   /) put(".EX\n" roff(text) "\n.EE") # as it stands
    else {
        sub(/^ +/, "", text)
        put(roff(text))
    }
}

function begin(what) {
    close(page)
    name = FILENAME
    sub(/.*\//, "", name)
    sub(/\.h$/, "", name)
    title = name == "betty" ? "betty" : "betty_" name
    page = OUT "/" title ".3"
    state = "text"
    gap = 0
    put(".TH " toupper(title) " 3 " DATE " \"libbetty " VERSION "\" libbetty")
    put(".SH NAME\n" title " \\- " roff(what))
    put(".SH SYNOPSIS\n.nf\n.B #include <betty/betty.h>\n.fi\n.PP\n.B cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs libbetty)")
    put(".SH DESCRIPTION")
    gap = -1
    pages[++count] = title
}

function end_page(    i, others) {
    tell()
    mode("text")
    put(".SH \"SEE ALSO\"\n.BR betty\\-run (1),\n.BR betty\\-run (5),")
    split("base data engine function nn op optim problem tensor text", others, " ")
    if (title != "betty") put(".BR betty (3)")
    else for (i = 1; i in others; i++) put(".BR betty_" others[i] " (3)" (i + 1 in others ? "," : ""))
}

# Lines of at most WIDTH columns: what a comment at the end says comes before it; else a line breaks behind a comma.
function show(line,    at, indent, comment, cut) {
    match(line, /^ */)
    indent = substr(line, 1, RLENGTH)
    if (length(line) > WIDTH && (at = match(line, / *\/\*.*\*\/$/)) && substr(line, 1, at - 1) !~ /^ *$/) {
        comment = substr(line, at)
        sub(/^ */, "", comment)
        show(indent comment)
        line = substr(line, 1, at - 1)
    }
    while (length(line) > WIDTH + (line ~ /^ *\/\*/ ? 4 : 0)) {
        cut = WIDTH
        while (cut > length(indent) + 4 && substr(line, cut, 1) != " ") cut--
        if (cut <= length(indent) + 4) break
        put(roff(substr(line, 1, cut - 1)))
        line = indent "    " substr(line, cut + 1)
    }
    put(roff(line))
}

function goes_on(line) { # a declaration or a comment, on the next line
    while (match(line, /\/\*([^*]|\*[^\/])*\*\//)) line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
    return line ~ /\/\*/ || gsub(/\(/, "", line) > gsub(/\)/, "", line)
}

function tell() { # the comment that nothing has followed yet
    if (held == "") return
    mode("text")
    prose("")
    prose(held)
    held = ""
}

function code(line,    found) {
    if (line ~ /^ *$/) {
        blank = 1
        return
    }
    if (joined != "") sub(/^ *(\* )? */, " ", line)
    line = joined line
    joined = goes_on(line) ? line : ""
    if (joined != "") return
    tell()
    mode("code")
    if (blank) put("")
    blank = 0
    if (match(line, /\(bt_[a-z0-9_]+\)\(/)) # the function itself, where a macro has its name
        line = substr(line, 1, RSTART - 1) substr(line, RSTART + 1, RLENGTH - 3) substr(line, RSTART + RLENGTH - 1)
    if (line !~ /^ / && line !~ /^typedef/ && match(line, /bt_[a-z0-9_]+\(/)) {
        found = substr(line, RSTART, RLENGTH - 1)
        print ".so man3/" title ".3" >(OUT "/" found ".3")
        close(OUT "/" found ".3")
    }
    show(line)
}

BEGIN { WIDTH = 76 }

FNR == 1 {
    if (NR > 1) end_page()
    what = $0
    sub(/^\/\* [a-z\/]*\.h: /, "", what)
    closed = sub(/ *\*\/$/, "", what)
    sub(/\. .*/, "", what)
    begin(what)
    inside = !closed
    next
}

# In a comment of several lines.
inside {
    text = $0
    closed = sub(/ *\*\/$/, "", text)
    sub(/^ \*/, "", text)
    if (text != "/") prose(text)
    if (closed) inside = 0
    next
}

# Nobody reads: what is for C++, for clang-format or within macros, guards, includes.
/^#ifdef __cplusplus/ { skipping = 1 }
skipping { if (/^#endif/) skipping = 0; next }
/^\/\* clang-format/ { next }
/^ +X\(/ { # a list of names, which an enum has
    gsub(/^ +X\(| *\\$|"|\)/, "")
    split($0, item, ", ")
    listed = listed "    " item[1] " = " item[2] ", /* " substr($0, length(item[1] item[2]) + 5) " */\n"
    next
}
dropped { dropped = /\\$/; next }
/^[a-z].* \**bt_[a-z0-9_]*_\(/ { private = 1 }
private { if (/;/) private = 0; next }
/^#define [A-Za-z0-9_]+\(/ && !/\/\*.*\*\/$/ || /^#define [A-Za-z0-9_]*_\(/ {
    dropped = /\\$/
    held = "" # was about it
    next
}
/^#define [a-z]/ { # a macro of a function's name: what it is called with
    macro = substr($2, 1, index($2, "(") - 1)
    sub(/^[^\/]*\/\* /, "")
    sub(/^\(/, macro "(")
    code("/* " (index($0, macro) == 1 ? "" : macro ": ") $0)
    next
}
/^#define BT_[A-Z_]+ / { code($0); next }
/^#/ { next }
/^\/\* ---- .* ---- \*\/$/ {
    tell()
    mode("text")
    gsub(/^\/\* ---- | ---- \*\/$/, "")
    put(".SS \"" roff($0) "\"")
    gap = -1
    next
}

/^\/\* / { # a comment of its own
    tell()
    held = substr($0, 4)
    inside = !sub(/ *\*\/$/, "", held)
    if (inside) tell()
    next
}

/^ +[A-Z_]+_LIST\(/ {
    sub(/\n$/, "", listed)
    put(roff(listed))
    next
}

{ code($0) }

END { end_page() }
