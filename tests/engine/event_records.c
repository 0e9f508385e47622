/* tests/engine/event_records.c: reads the event files of a folder, record by record. */
#include "event_records.h"

#include <check.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIME = 9 }; /* bytes of wall_time, with its tag */

/* With a table, unlike the code under test. */
static uint32_t crc32c(const unsigned char *bytes, size_t size)
{
    static uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] & 1 ? table[i] >> 1 ^ 0x82F63B78u : table[i] >> 1;
    }
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++)
        crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
    return crc ^ 0xFFFFFFFFu;
}

static uint64_t little(const unsigned char *bytes, int count)
{
    uint64_t value = 0;
    for (int i = count; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

static void expect_sum(const unsigned char *bytes, size_t size)
{
    uint32_t crc = crc32c(bytes, size);
    ck_assert_uint_eq(little(bytes + size, 4), (uint32_t)((crc >> 15 | crc << 17) + 0xA282EAD8u));
}

/* The start of the event's own fields, after its time and step. */
static const unsigned char *fields_of(const unsigned char *event)
{
    ck_assert_uint_eq(event[0], 1 << 3 | 1);
    event += TIME;
    if (*event == 2 << 3)
        while (*++event & 0x80) {}
    else
        return event;
    return event + 1;
}

static size_t read_one(const char *path, unsigned char *bytes, size_t room, event_counts *counts)
{
    static unsigned char data[1 << 20];
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(data, 1, sizeof data, file), used = 0;
    fclose(file);
    for (const unsigned char *at = data, *end = data + size; at < end;) {
        ck_assert_int_ge(end - at, 16);
        expect_sum(at, 8);
        size_t length = (size_t)little(at, 8);
        const unsigned char *event = at + 12;
        ck_assert_uint_le(length + 4, (size_t)(end - event));
        expect_sum(event, length);
        int field = *fields_of(event) >> 3;
        counts->versions += field == 3;
        counts->starts += field == 7;
        if (field == 5) {
            counts->events++;
            ck_assert_uint_le(used + length, room);
            memcpy(bytes + used, event + TIME, length - TIME);
            used += length - TIME;
            if (memmem(event, length, "config/text_summary", 19))
                counts->config = used;
        }
        at = event + length + 4;
    }
    return used;
}

static int is_event_file(const struct dirent *entry) { return strstr(entry->d_name, "tfevents") != NULL; }

size_t event_records(const char *folder, unsigned char *bytes, size_t room, event_counts *counts)
{
    struct dirent **entries;
    size_t used = 0;
    *counts = (event_counts){.files = scandir(folder, &entries, is_event_file, alphasort)};
    ck_assert_int_ge(counts->files, 0);
    for (int i = 0; i < counts->files; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        used += read_one(path, bytes + used, room - used, counts);
        free(entries[i]);
    }
    free(entries);
    return used;
}
