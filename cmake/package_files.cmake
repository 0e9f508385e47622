# What Debian wants of the files of a package and `cmake --install` does not do: pages of the manual compressed, no
# debugging information in the static library, zsh's functions where Debian's zsh finds them; licence and changes.

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(output "${output}" PARENT_SCOPE)
endfunction()

run(date --utc --rfc-email --date=${CPACK_BETTY_DATE})
set(when "${output}")
foreach(component ${CPACK_COMPONENTS_ALL})
    set(part ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
    if(NOT EXISTS ${part}) # the sources
        continue()
    endif()
    file(GLOB pages ${part}/share/man/*/*.[135])
    if(pages)
        run(gzip -9n ${pages})
    endif()
    file(GLOB_RECURSE archives ${part}/lib/*.a)
    if(archives)
        run(strip --strip-debug --enable-deterministic-archives ${archives})
    endif()
    if(EXISTS ${part}/share/zsh/site-functions)
        file(RENAME ${part}/share/zsh/site-functions ${part}/share/zsh/vendor-completions)
    endif()
    string(TOUPPER ${component} name)
    set(package ${CPACK_DEBIAN_${name}_PACKAGE_NAME})
    set(documents ${part}/share/doc/${package})
    file(WRITE ${documents}/copyright "Copyright: 2026 the libbetty maintainers\nLicense: Apache-2.0\n\n"
        "The text of the licence is in /usr/share/common-licenses/Apache-2.0. The data sets in /usr/share/betty/data have\n"
        "licences of their own, which the files SOURCE.txt there state.\n")
    file(WRITE ${documents}/changelog "${package} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
        "  * What has changed is in CHANGELOG.md of the sources.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${when}\n")
    run(gzip -9n ${documents}/changelog)
endforeach()
