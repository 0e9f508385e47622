# What Debian wants of the files of a package and `cmake --install` does not do: pages of the manual compressed, no debugging
# information in the static library, a copyright file, zsh's functions where Debian's zsh finds them.

file(GLOB parts LIST_DIRECTORIES true ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
foreach(part ${parts})
    file(GLOB_RECURSE pages ${part}/usr/share/man/*.[135])
    foreach(page ${pages})
        execute_process(COMMAND gzip -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    file(GLOB_RECURSE archives ${part}/usr/lib/*.a)
    foreach(archive ${archives})
        execute_process(COMMAND strip --strip-debug ${archive} COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    if(EXISTS ${part}/usr/share/zsh/site-functions)
        file(RENAME ${part}/usr/share/zsh/site-functions ${part}/usr/share/zsh/vendor-completions)
    endif()
endforeach()
