/* tests/fuzz/mutate.c: the main program of a target that is run as a test: tries the given files or folders, and then
 * COUNT inputs made from them by a few changes each, always the same ones.
 *
 * TARGET COUNT FILE...
 *
 * If $FUZZ_INPUT is set, the input being tried is kept in that file, so that it is there after a crash. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SEEDS = 256, LARGEST = 1 << 16 };

typedef struct input {
    uint8_t *data;
    size_t size;
} input;

static input seeds[MOST_SEEDS];
static int seed_count;
static uint64_t state = 0x9e3779b97f4a7c15;

static size_t below(size_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return limit ? (size_t)(state >> 11) % limit : 0;
}

static void keep(const uint8_t *data, size_t size)
{
    static int file = -1;
    const char *path = getenv("FUZZ_INPUT");
    if (path && file < 0)
        file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (path)
        fuzz_check(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size, path);
}

static void run(const uint8_t *data, size_t size)
{
    keep(data, size);
    uint8_t *exact = malloc(size + !size); /* so that a sanitizer sees a read past its end */
    fuzz_check(exact != NULL, "no memory");
    memcpy(exact, data, size);
    fuzz_one(exact, size);
    free(exact);
}

/* ---- the seeds ---- */

static void add_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    fuzz_check(file != NULL && seed_count < MOST_SEEDS, path);
    input *seed = &seeds[seed_count++];
    seed->data = malloc(LARGEST);
    fuzz_check(seed->data != NULL, "no memory");
    seed->size = fread(seed->data, 1, LARGEST, file);
    fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void add(const char *path)
{
    struct stat info;
    fuzz_check(stat(path, &info) == 0, path);
    if (!S_ISDIR(info.st_mode)) {
        add_file(path);
        return;
    }
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            add_file(name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

/* ---- changes ---- */

static void replace(input *to, size_t at, size_t cut, const uint8_t *piece, size_t size)
{
    if (to->size - cut + size > LARGEST)
        return;
    memmove(to->data + at + size, to->data + at + cut, to->size - at - cut);
    if (size)
        memcpy(to->data + at, piece, size);
    to->size = to->size - cut + size;
}

static void change(input *to)
{
    static const uint8_t notable[] = {0,   1,   0x7f, 0x80, 0xff, '\n', '\r', '"', '=', '[', ']', '.',
                                      ',', ':', ';',  '-',  '0',  '9',  'e',  ' ', '#', '>', '\\'};
    const input *other = &seeds[below((size_t)seed_count)];
    size_t at = below(to->size + 1), rest = to->size - at, from = below(other->size + 1);
    uint8_t byte = below(2) ? notable[below(sizeof notable)] : (uint8_t)below(256);
    uint8_t many[64];
    switch (below(6)) {
    case 0: /* change a byte */
        replace(to, at, rest > 0, &byte, 1);
        break;
    case 1: /* insert one */
        replace(to, at, 0, &byte, 1);
        break;
    case 2: /* remove some */
        replace(to, at, below((rest < 16 ? rest : 16) + 1), NULL, 0);
        break;
    case 3: /* truncate the input */
        to->size = at;
        break;
    case 4: /* a part of another input */
        replace(to, at, below(rest + 1), other->data + from, below(other->size - from + 1));
        break;
    default: /* repeat a byte many times */
        memset(many, byte, sizeof many);
        replace(to, at, 0, many, below(sizeof many));
    }
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    for (int i = 2; i < argc; i++)
        add(argv[i]);
    fuzz_check(seed_count > 0, "usage: TARGET COUNT FILE...: which inputs?");
    for (int i = 0; i < seed_count; i++)
        run(seeds[i].data, seeds[i].size);
    input now = {malloc(LARGEST), 0};
    fuzz_check(now.data != NULL, "no memory");
    for (long n = 0; n < count; n++) {
        const input *seed = &seeds[below((size_t)seed_count)];
        memcpy(now.data, seed->data, now.size = seed->size);
        for (size_t changes = 1 + below(6); changes > 0; changes--)
            change(&now);
        run(now.data, now.size);
    }
    free(now.data);
    for (int i = 0; i < seed_count; i++)
        free(seeds[i].data);
    printf("%d inputs, %ld made from them\n", seed_count, count);
    return 0;
}
