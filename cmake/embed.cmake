# A file as a text of C: a string literal for each of its lines.
function(embed_text file variable)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
    set(${variable} "    \"${text}\"" PARENT_SCOPE)
endfunction()
