/* The report of a run with the input as its files: metrics in any case; plan, check, profile, summary and ablation if
 * it is JSON. */
#include "fuzz.h"

#include "engine/report/report.h"
#include "io/json.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"metrics.jsonl", "equation.txt", "summary.json", "plan.json",
                                    "check.json",    "profile.json", "ablation.json"};
static char run[64], extra[64];

static void remove_folders(void)
{
    for (int i = 0; i < BT_COUNT_OF(names); i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", run, names[i]);
        unlink(path);
        snprintf(path, sizeof path, "%s/%s", extra, names[i]);
        unlink(path);
    }
    char path[128];
    snprintf(path, sizeof path, "%s/config.ini", run);
    unlink(path);
    rmdir(run);
    rmdir(extra);
}

static void link_to(const char *folder, const char *name, const char *content)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    fuzz_check(symlink(content, path) == 0, "no link");
}

static void make_folders(const char *content)
{
    char path[128];
    snprintf(run, sizeof run, "/tmp/betty-fuzz-XXXXXX");
    snprintf(extra, sizeof extra, "/tmp/betty-fuzz-XXXXXX");
    fuzz_check(mkdtemp(run) && mkdtemp(extra), "no folder");
    snprintf(path, sizeof path, "%s/config.ini", run);
    FILE *config = fopen(path, "w");
    fuzz_check(config && fputs("[engine]\nseed = 1\n", config) >= 0 && fclose(config) == 0, "no configuration");
    for (int i = 0; i < BT_COUNT_OF(names) - 1; i++)
        link_to(run, names[i], content);
    link_to(extra, "ablation.json", content);
    atexit(remove_folders);
}

/* No text of the input becomes an element, or ends an attribute. */
static void look(const char *html)
{
    fuzz_check(strstr(html, "<script") == NULL && strstr(html, "<img") == NULL, "words have become an element");
    fuzz_check(strstr(html, "</html>") != NULL, "the page has no end");
    for (const char *c = html; *c; c++)
        fuzz_check((unsigned char)*c >= ' ' || *c == '\n', "a control character");
}

void fuzz_one(const uint8_t *data, size_t size)
{
    const char *content = fuzz_file(0, data, size);
    if (!*run)
        make_folders(content);
    bt_text html = {0};
    bt_status status = bt_report_page((const char *const[]){run, extra}, 2, &html);
    if (status == BT_OK)
        look(bt_text_get(&html));
    bt_text_free(&html);
    fuzz_refused(status != BT_OK);
}
