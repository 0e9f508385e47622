/* Child processes: their messages, how they end, several at once. */
#include "levels.h"

#include "engine/process/process.h"
#include "support/suite.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct talk {
    int way;
    char heard[64];
    volatile sig_atomic_t stop;
} talk;

static bt_status say(void *user, FILE *tell)
{
    talk *t = user;
    for (int i = 1; i <= 3; i++)
        EXPECT_OK(bt_process_tell(tell, json_pack("{s:i}", "n", i)));
    printf("not to be seen\n");
    if (t->way == 1)
        return bt_fail(BT_ERROR_DATA, "it is \"broken\"");
    if (t->way == 2)
        raise(SIGKILL);
    if (t->way == 3)
        _exit(7);
    while (t->way == 4)
        pause();
    return BT_OK;
}

static bt_status hear(void *user, json_t *line)
{
    talk *t = user;
    const size_t used = strlen(t->heard);
    snprintf(t->heard + used, sizeof t->heard - used, "%.0f", bt_json_read_number(line, "n"));
    t->stop = t->way == 4 && strcmp(t->heard, "123") == 0;
    return BT_OK;
}

START_TEST(processes)
{
    static const struct {
        bt_status failed;
        const char *why;
    } expected[] = {
        {BT_OK, ""},
        {BT_ERROR_DATA, "it is \"broken\""},
        {BT_ERROR_INTERNAL, "its process was ended by signal 9 (Killed)"},
        {BT_ERROR_INTERNAL, "its process ended with exit code 7; see its messages above"},
        {BT_OK, ""},
    };
    talk t = {.way = _i};
    bt_process process = {.run = say, .hear = hear, .user = &t}, *list[] = {&process}, *ended = NULL;
    EXPECT_OK(bt_process_start(&process));
    while (!ended && !t.stop)
        EXPECT_OK(bt_process_listen(list, 1, &ended));
    ck_assert_int_eq(ended != NULL, _i != 4);
    ck_assert_int_eq(process.failed, expected[_i].failed);
    ck_assert_str_eq(bt_text_get(&process.why), expected[_i].why);
    ck_assert_str_eq(t.heard, "123");
    bt_process_free(&process);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* none is left */
}
END_TEST

/* ---- several ---- */

static bt_status wait_to_be_asked(void *user, FILE *tell)
{
    const volatile sig_atomic_t *asked = bt_process_asked();
    (void)user;
    bt_process_can_finish();
    printf("printed\n");
    fflush(stdout);
    EXPECT_OK(bt_process_tell(tell, json_pack("{s:i}", "n", 4)));
    while (!*asked)
        usleep(1000);
    return bt_process_tell(tell, json_pack("{s:i}", "n", 5));
}

/* Two run at once; each ends when asked to, and their output is in their files; the second file already had
 * contents. */
START_TEST(several)
{
    talk talks[2] = {{.way = 0}, {.way = 0}};
    bt_process list[2], *all[2] = {&list[0], &list[1]}, *ended = NULL;
    const char *const names[] = {"process-0.txt", "process-1.txt"};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(names[i], "w");
        fputs(i ? "before\n" : "", file);
        fclose(file);
        list[i] = (bt_process){.run = wait_to_be_asked, .hear = hear, .user = &talks[i], .prints = names[i]};
        EXPECT_OK(bt_process_start(&list[i]));
    }
    while (!talks[0].heard[0] || !talks[1].heard[0])
        EXPECT_OK(bt_process_listen(all, 2, &ended));
    ck_assert_ptr_null(ended);
    for (int i = 1; i >= 0; i--) {
        bt_process_ask(&list[i]);
        for (ended = NULL; !ended;)
            EXPECT_OK(bt_process_listen(all, 2, &ended));
        ck_assert_ptr_eq(ended, &list[i]);
        ck_assert_int_eq(list[i].failed, BT_OK);
        ck_assert_str_eq(talks[i].heard, "45");
        char text[64] = "";
        FILE *file = fopen(names[i], "r");
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        remove(names[i]);
        ck_assert_str_eq(text, i ? "before\nprinted\n" : "printed\n");
        bt_process_free(&list[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("process");
    TCase *tests = tcase_create("process");
    tcase_add_loop_test(tests, processes, 0, 5);
    tcase_add_test(tests, several);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
