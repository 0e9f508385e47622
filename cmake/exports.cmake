# Writes the names that the public headers mention as a version script (OUT.map, for the shared library, all with the
# version VERSION) and as a list of dynamic symbols (OUT.dynamic-list, for the command). Names that are no symbols do no
# harm there.

set(names "")
foreach(header ${HEADERS})
    file(READ ${header} text)
    string(REGEX MATCHALL "bt_[a-z0-9_]+" found "${text}")
    list(APPEND names ${found})
endforeach()
list(REMOVE_DUPLICATES names)
list(REMOVE_ITEM names bt_exported) # the user's, not ours
list(SORT names)
list(JOIN names ";\n    " lines)
file(WRITE ${OUT}.map "${VERSION} {\nglobal:\n    ${lines};\nlocal:\n    *;\n};\n")
file(WRITE ${OUT}.dynamic-list "{\n    ${lines};\n};\n")
