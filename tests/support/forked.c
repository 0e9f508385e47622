#include "support/forked.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void forked_run(int ranks, forked_fn *body, void *user, int *codes)
{
    pid_t ids[FORKED_MOST];
    bt_page *page = ranks <= FORKED_MOST ? bt_page_new(ranks) : NULL;
    if (!page)
        abort(); /* may be called before Check starts */
    for (int r = 0; r < ranks; r++) {
        ids[r] = fork();
        if (ids[r] == 0)
            _exit(body(bt_page_transport(page, r), r, user));
        if (ids[r] < 0)
            abort();
    }
    for (int left = ranks; left > 0; left--) {
        int how;
        const pid_t id = waitpid(-1, &how, 0);
        for (int r = 0; r < ranks; r++)
            if (ids[r] == id)
                codes[r] = WIFEXITED(how) ? WEXITSTATUS(how) : -1 - WTERMSIG(how);
        if (!WIFEXITED(how) || WEXITSTATUS(how))
            bt_page_fail(page, "one has ended", 7);
    }
    bt_page_free(page);
}
