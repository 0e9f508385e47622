/* Compares a run that has the input as its summary.json or metrics.jsonl with one that has neither. */
#include "fuzz.h"

#include "engine/compare/compare.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDERS = 3 };
static char folders[FOLDERS][32];

static void remove_folders(void)
{
    static const char *const names[] = {"config.ini", "summary.json", "metrics.jsonl", ""};
    for (int k = 0; k < FOLDERS; k++)
        for (int i = 0; i < BT_COUNT_OF(names); i++) {
            char path[256];
            snprintf(path, sizeof path, "%s/%s", folders[k], names[i]);
            if (*names[i])
                unlink(path);
            else
                rmdir(path);
        }
}

/* The folder of a run in which that file, if any, is a link to the one in memory. */
static void make_folder(int k, const char *name, const char *content)
{
    char path[256];
    snprintf(folders[k], sizeof folders[k], "/tmp/betty-fuzz-XXXXXX");
    fuzz_check(mkdtemp(folders[k]) != NULL, "no folder");
    snprintf(path, sizeof path, "%s/config.ini", folders[k]);
    FILE *config = fopen(path, "w");
    fuzz_check(config && fputs("[engine]\nseed = 1\n", config) >= 0 && fclose(config) == 0, "no configuration");
    snprintf(path, sizeof path, "%s/%s", folders[k], name);
    fuzz_check(!*name || symlink(content, path) == 0, "no link");
}

/* Invalid lines are skipped. */
void fuzz_one(const uint8_t *data, size_t size)
{
    const char *content = fuzz_file(0, data, size);
    if (!*folders[0]) {
        make_folder(0, "summary.json", content);
        make_folder(1, "metrics.jsonl", content);
        make_folder(2, "", NULL);
        atexit(remove_folders);
    }
    for (int k = 0; k < 2; k++) {
        bt_text text = {0};
        json_t *compared = bt_compare(folders[k], folders[2]);
        const bool refused = !compared;
        fuzz_check(!refused || k == 0, "a run with metrics cannot be compared");
        if (!refused) {
            bt_compare_text(compared, &text);
            fuzz_check(text.size > 0 && !text.failed && !bt_has_controls(text.data),
                       "it is not printed, or with what a terminal obeys");
        }
        bt_text_free(&text);
        json_decref(compared);
        fuzz_refused(refused);
    }
}
