/* iniparser, in a process whose allocations fail. It opens the file and makes its dictionary, by five allocations of
 * which it does not look at three (4.1): a program cannot come through their failure, so that engine/config/ini.c first
 * sees whether there is memory. All that come after fail as the others do. The linker puts this in the place of
 * iniparser_load (--wrap). */
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
