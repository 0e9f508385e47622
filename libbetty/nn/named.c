/* nn/named.c: children, parameters and buffers by name. A map from hashes of names says where to look; the entry there
 * must have that name. */
#include "nn/module.h"

#include <string.h>

static const void *key_of(const char *name, size_t length)
{
    return (const void *)((uintptr_t)bt_hash(0, name, length) | 1); /* never NULL */
}

static bool is(const char *name, const char *other, size_t length)
{
    return strncmp(name, other, length) == 0 && name[length] == 0;
}

bt_module *bt_module_child_named(const bt_module *module, const char *name, size_t length)
{
    int64_t at = bt_map_get(&module->names, key_of(name, length)), i = at / 2;
    if (at < 0)
        return NULL;
    if (at % 2 == 0 && i < module->child_count && is(module->children[i]->name, name, length))
        return module->children[i];
    for (i = 0; i < module->child_count; i++) /* two names share a hash, or a child was removed */
        if (is(module->children[i]->name, name, length))
            return module->children[i];
    return NULL;
}

bt_slate *bt_module_slate_named(const bt_module *module, const char *name, size_t length)
{
    int64_t at = bt_map_get(&module->names, key_of(name, length)), i = at / 2;
    if (at < 0)
        return NULL;
    if (at % 2 == 1 && i < module->slate_count && is(module->slates[i]->name, name, length))
        return module->slates[i];
    for (i = 0; i < module->slate_count; i++)
        if (is(module->slates[i]->name, name, length))
            return module->slates[i];
    return NULL;
}

bt_status bt_module_note_child(bt_module *module, const char *name)
{
    return bt_map_put(&module->names, key_of(name, strlen(name)), 2 * module->child_count);
}

bt_status bt_module_note_slate(bt_module *module, const char *name)
{
    return bt_map_put(&module->names, key_of(name, strlen(name)), 2 * module->slate_count + 1);
}
