/* data/tasks.c: few-shot tasks. A task has some classes of a set. Of each class, some examples are for learning (the
 * support) and others for evaluation (the query). A task is a pure function of the seed and its number. */
#include "base/random.h"
#include "data/dataset.h"

struct bt_tasks {
    uint64_t seed;
    int64_t ways, label;
    bt_task_part parts[BT_TASK_PARTS];
    int64_t class_count, examples;
    int32_t *classes; /* [class_count]: 0, 1, ...; like members, reordered only while a task is drawn */
    int32_t *members; /* [examples]: places sorted by class */
    int64_t *starts;  /* [class_count + 1]: where each class starts in members */
    int32_t *moves;   /* [ways + the examples of a class in a task]: swaps to undo */
};

const bt_task_part *bt_tasks_parts(const bt_tasks *tasks) { return tasks->parts; }

int64_t bt_tasks_label(const bt_tasks *tasks) { return tasks->label; }

/* Examples that a task takes from each class. */
static int64_t taken(const bt_tasks *t) { return t->parts[0].each + t->parts[1].each; }

void bt_tasks_free(bt_tasks *tasks)
{
    if (!tasks)
        return;
    bt_free(tasks->classes);
    bt_free(tasks->members);
    bt_free(tasks->starts);
    bt_free(tasks->moves);
    bt_free(tasks);
}

size_t bt_tasks_bytes(const bt_tasks *t)
{
    if (!t)
        return 0;
    size_t words = (size_t)(t->class_count + t->examples + t->ways + taken(t));
    return sizeof *t + words * sizeof *t->members + ((size_t)t->class_count + 1) * sizeof *t->starts;
}

/* ---- drawing ---- */

static void exchange(int32_t *items, int64_t i, int64_t k)
{
    int32_t item = items[i];
    items[i] = items[k];
    items[k] = item;
}

/* Moves `few` random items to the front, like the beginning of a shuffle. */
static void deal(int32_t *items, int64_t count, int64_t few, bt_random *random, int32_t *moves)
{
    for (int64_t i = 0; i < few; i++) {
        moves[i] = (int32_t)i + (int32_t)bt_random_below(random, (uint32_t)(count - i));
        exchange(items, i, moves[i]);
    }
}

/* Undoes the swaps, so that tasks do not depend on one another; this is faster than copying. */
static void take_back(int32_t *items, int64_t few, const int32_t *moves)
{
    while (few-- > 0)
        exchange(items, few, moves[few]);
}

void bt_tasks_draw(bt_tasks *t, int64_t number, int32_t *const *places)
{
    int32_t *const moves = t->moves + t->ways;
    bt_random random = bt_random_begin(t->seed, BT_FOR_TASKS, 0, (uint64_t)number);
    deal(t->classes, t->class_count, t->ways, &random, t->moves);
    for (int64_t way = 0; way < t->ways; way++) {
        int32_t k = t->classes[way], *members = t->members + t->starts[k];
        deal(members, t->starts[k + 1] - t->starts[k], taken(t), &random, moves);
        const int32_t *next = members;
        for (int part = 0; part < BT_TASK_PARTS; part++)
            for (int64_t i = 0; i < t->parts[part].each; i++)
                places[part][way * t->parts[part].each + i] = *next++;
        take_back(members, taken(t), moves);
    }
    take_back(t->classes, t->ways, t->moves);
}

/* ---- making ---- */

static bt_status check(int64_t ways, int64_t shots, int64_t queries, const bt_classes *c)
{
    if (ways > c->count)
        return bt_fail(BT_ERROR_DATA,
                       "bt_dataset_tasks: tasks of %lld classes were asked for, but the data set has %lld",
                       (long long)ways, (long long)c->count);
    for (int64_t k = 0; k < c->count; k++) {
        int64_t size = c->starts[k + 1] - c->starts[k];
        if (shots > size || queries > size - shots)
            return bt_fail(BT_ERROR_DATA,
                           "bt_dataset_tasks: class %lld has %lld examples; expected at least %lld shots and %lld "
                           "queries, all different",
                           (long long)c->values[k], (long long)size, (long long)shots, (long long)queries);
    }
    return BT_OK;
}

/* Takes over members and starts from the classes. */
static bt_status make(bt_dataset *data, bt_classes *c, int64_t ways, int64_t shots, int64_t queries, uint64_t seed)
{
    BT_TRY(check(ways, shots, queries, c));
    bt_tasks *t = bt_alloc(sizeof *t);
    if (!t)
        return BT_ERROR_MEMORY;
    *t = (bt_tasks){.seed = seed, .ways = ways, .label = c->column - data->columns, .class_count = c->count};
    t->parts[0] = (bt_task_part){"support", shots, ways * shots};
    t->parts[1] = (bt_task_part){"query", queries, ways * queries};
    t->examples = data->count;
    t->classes = bt_alloc_array((size_t)c->count, sizeof *t->classes);
    t->moves = bt_alloc_array((size_t)(ways + taken(t)), sizeof *t->moves);
    if (!t->classes || !t->moves) {
        bt_tasks_free(t);
        return BT_ERROR_MEMORY;
    }
    for (int64_t k = 0; k < c->count; k++)
        t->classes[k] = (int32_t)k;
    t->members = c->members;
    t->starts = c->starts;
    c->members = NULL;
    c->starts = NULL;
    data->tasks = t;
    return BT_OK;
}

bt_dataset *bt_dataset_tasks(bt_dataset *data, int64_t ways, int64_t shots, int64_t queries, uint64_t seed)
{
    if (!bt_dataset_usable("bt_dataset_tasks", data))
        return bt_dataset_done(data, BT_ERROR_ARGUMENT);
    if (data->augment && data->augment->alpha != 0)
        return bt_dataset_done(data, bt_fail(BT_ERROR_UNSUPPORTED,
                                             "bt_dataset_tasks: the data set mixes examples (bt_dataset_mixup), and "
                                             "the other example may be of a class that is not in the task"));
    if (ways < 1 || shots < 1 || queries < 1)
        return bt_dataset_done(data, bt_fail(BT_ERROR_ARGUMENT,
                                             "bt_dataset_tasks: found %lld ways, %lld shots, %lld queries; expected at "
                                             "least 1 of each",
                                             (long long)ways, (long long)shots, (long long)queries));
    bt_classes c;
    bt_status status = bt_classes_find("bt_dataset_tasks", data, &c);
    if (status == BT_OK) {
        status = make(data, &c, ways, shots, queries, seed);
        bt_classes_free(&c);
    }
    return bt_dataset_done(data, status);
}
