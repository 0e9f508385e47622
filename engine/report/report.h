/* engine/report/report.h: betty-run --report: what runs have left in their folders, on one page.
 *
 *   read.c       the folders: runs, grids of runs, ablations
 *   series.c     metrics over steps, of one run or of several that differ only in their seed
 *   page.c       the page, assembled from its parts
 *   style.c      how it looks
 *   runs.c       the list of runs, and what differs between them
 *   curves.c     a chart for each metric
 *   bars.c       stacked bars, used by memory.c and measured.c
 *   memory.c     the memory plan by phase
 *   measured.c   the ablation; the profile
 *   findings.c   the equation, the check of the hypergradient, the configuration
 *
 * The files of a run may come from anybody: anything that a run would not write is skipped, and their text is
 * escaped, so it cannot add HTML. */
#ifndef BT_REPORT_H
#define BT_REPORT_H

#include "base/base.h"

enum { BT_REPORT_MOST = 200 }; /* runs */

/* The page for these folders, each of which holds a run, several runs, an ablation or a check. BT_ERROR_CONFIG: one of
 * them does not. */
bt_status bt_report_page(const char *const *folders, int64_t count, bt_text *html);

/* Writes it to report.html in `output`, which is created if missing; NULL: in the first folder. *path: for bt_free. */
bt_status bt_report_write(const char *const *folders, int64_t count, const char *output, char **path);

#endif
