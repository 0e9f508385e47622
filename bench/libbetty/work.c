/* bench/libbetty/work.c: the lower bound of a step: its minimum work, and what one core can do per second. */
#include "bench.h"

#include "../roof.h"
#include "engine/session/session.h"
#include "runtime/profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Bytes of one batch of a level, as its programs read it. */
static double batch_bytes(const bt_memory_table *table, const char *level)
{
    for (int64_t i = 0; table && i < table->count; i++)
        if (!table->rows[i].phase && strcmp(table->rows[i].level, level) == 0 &&
            strcmp(table->rows[i].category, "batch") == 0)
            return (double)table->rows[i].bytes;
    return 0;
}

/* Bytes per second copied within a buffer of this size, counting both reads and writes. */
static double bandwidth(size_t size)
{
    size_t half = size < 4096 ? 2048 : size / 2;
    char *buffer = calloc(2, half);
    double best = 0, begun = bt_seconds();
    for (int64_t repeats = 1; buffer && bt_seconds() - begun < 0.1;) {
        double start = bt_seconds();
        for (int64_t i = 0; i < repeats; i++) {
            memcpy(buffer + half * (size_t)(i % 2), buffer + half * (size_t)((i + 1) % 2), half);
            __asm__ volatile("" ::"r"(buffer) : "memory");
        }
        double taken = bt_seconds() - start, speed = 2 * (double)half * (double)repeats / taken;
        best = speed > best ? speed : best;
        repeats *= taken < 2e-4 ? 2 : 1;
    }
    free(buffer);
    return best;
}

void print_work(session *s, int64_t steps)
{
    int64_t count;
    double flops = 0, bytes = 0, roof = 0;
    bt_memory_table *table = bt_engine_memory(s->engine);
    const bt_profile_row *row = bt_profile_rows(s->profile, &count);
    for (const bt_profile_row *end = row + count; row < end; row++) {
        double calls = (double)row->calls;
        if (begins(row->name, "dot") || begins(row->name, "linear") || begins(row->name, "conv"))
            flops += calls * row->flops;
        else if (begins(row->name, "sgd") || begins(row->name, "adam"))
            bytes += calls * row->bytes;
        else if (strcmp(row->name, "batches") == 0)
            bytes += calls * 2 * batch_bytes(table, row->owner); /* from the set, into the batch */
    }
    for (int i = 0; i < 50; i++) {
        double now = roof_speed(s->engine->context.instance->backend->isa());
        roof = now > roof ? now : roof;
    }
    size_t size = table ? table->persistent + table->arena_used : 0;
    printf("{\"flops\": %.9g, \"bytes\": %.9g, \"flops_per_second\": %.4g, \"bytes_per_second\": %.4g}\n",
           flops / (double)steps, bytes / (double)steps, roof, bandwidth(size));
    bt_memory_table_free(table);
}
