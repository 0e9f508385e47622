/* engine/level/clock.c: the counters of a level. A new counter only needs a row in the table: it is then saved,
 * resumed, kept during questions, and restored by bt_restore. */
#include "engine/level/level.h"

static const struct {
    const char *name;
    bt_row_kind kind;
    size_t place;
} clock_rows[] = {
#define BT_CLOCK_ROW(field, kind)                                                                                      \
    {                                                                                                                  \
#field, kind, offsetof(bt_problem, field)                                                                      \
    }
    BT_CLOCK_ROW(steps, BT_ROW_INT),       BT_CLOCK_ROW(logged, BT_ROW_INT),
    BT_CLOCK_ROW(seen, BT_ROW_INT),        BT_CLOCK_ROW(since, BT_ROW_INT),
    BT_CLOCK_ROW(inner, BT_ROW_INT),       BT_CLOCK_ROW(inner_seen, BT_ROW_INT),
    BT_CLOCK_ROW(calls, BT_ROW_INT),       BT_CLOCK_ROW(inner_loop_start, BT_ROW_BOOL),
    BT_CLOCK_ROW(return_due, BT_ROW_BOOL),
#undef BT_CLOCK_ROW
};

bt_status bt_clock_enter(bt_problem *problem)
{
    for (int i = 0; i < BT_COUNT_OF(clock_rows); i++)
        BT_TRY(bt_ledger_enter_number(problem->context, problem, BT_ROLE_CLOCK, clock_rows[i].name, clock_rows[i].kind,
                                      (char *)problem + clock_rows[i].place));
    return BT_OK;
}

void bt_clock_leave(bt_problem *problem)
{
    for (int i = 0; i < BT_COUNT_OF(clock_rows); i++)
        bt_ledger_leave(problem->context, (char *)problem + clock_rows[i].place);
}
