/* engine/report/report.h: betty-run --report: what runs have left, as one page.
 *
 *   read.c       the folders: runs, those of a grid, ablations
 *   series.c     metrics over steps, of one run and of several that differ in their seed alone
 *   page.c       the page, from its parts
 *   style.c      how it looks
 *   runs.c       which runs there are; what differs between them
 *   curves.c     a chart for each metric
 *   bars.c       bars of parts, such as
 *   memory.c     the memory plan by phase
 *   measured.c   the ablation; the profile
 *   findings.c   the equation, the check of the hypergradient, the configuration
 *
 * Files of a run may come from anybody: what is not as a run leaves it is passed over, and no text of them is taken for
 * HTML. */
#ifndef BT_REPORT_H
#define BT_REPORT_H

#include "base/base.h"

enum { BT_REPORT_MOST = 200 }; /* runs */

/* The page of these folders, each of which holds a run, several runs, an ablation or a check. BT_ERROR_CONFIG: one does
 * not. */
bt_status bt_report_page(const char *const *folders, int64_t count, bt_text *html);

/* As report.html in `output`, which is made if it is missing; NULL: in the first folder. *path: for bt_free. */
bt_status bt_report_write(const char *const *folders, int64_t count, const char *output, char **path);

#endif
