/* iniparser, in a process whose allocations fail. It opens the file and creates its dictionary with five allocations,
 * three of them unchecked (4.1). No program could survive their failure, so engine/config/ini.c first checks that there
 * is memory. All later allocations fail as usual. The linker substitutes this for iniparser_load (--wrap). */
#include "failing.h"

#include <iniparser.h>

dictionary *__real_iniparser_load(const char *file);
dictionary *__wrap_iniparser_load(const char *file);

dictionary *__wrap_iniparser_load(const char *file)
{
    failing_spare(5);
    dictionary *values = __real_iniparser_load(file);
    failing_spare(0);
    return values;
}
