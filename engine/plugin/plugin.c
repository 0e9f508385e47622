/* engine/plugin/plugin.c: finds problem definitions by name. */
#include "engine/plugin/plugin.h"

#include "engine/plugin/cc.h"
#include <dlfcn.h>
#include <string.h>

struct bt_plugin {
    void *handle; /* NULL: built in */
    char *source; /* likewise */
};

const char *bt_plugin_source(const bt_plugin *plugin) { return plugin ? plugin->source : NULL; }

void bt_plugin_close(bt_plugin *plugin)
{
    if (!plugin)
        return;
    if (plugin->handle)
        dlclose(plugin->handle);
    bt_free(plugin->source);
    bt_free(plugin);
}

static bt_status check_export(const char *source, const bt_export *parts)
{
    if (!parts)
        return bt_fail(BT_ERROR_CONFIG, "%s exports nothing: end the file with BT_EXPORT(.problems = {&...});", source);
    if (parts->abi != BT_ABI)
        return bt_fail(
            BT_ERROR_CONFIG,
            "%s was compiled with headers of version %d, but this program is of version %d; set BETTY_INCLUDE to the "
            "folder with the program's own betty/betty.h",
            source, parts->abi, BT_ABI);
    return BT_OK;
}

static bt_status open_file(const char *source, bt_plugin *plugin, const bt_export **parts)
{
    char *object;
    BT_TRY(bt_cc(source, &object));
    plugin->source = bt_strdup(source);
    bt_guest before = bt_guest_enter((bt_guest){.file = plugin->source, .function = "loading"});
    plugin->handle = plugin->source ? dlopen(object, RTLD_NOW | RTLD_LOCAL) : NULL;
    bt_guest_leave(before);
    bt_free(object);
    if (!plugin->source)
        return BT_ERROR_MEMORY;
    if (!plugin->handle) {
        const char *why = dlerror();
        return bt_fail(BT_ERROR_CONFIG, "%s cannot be loaded: %s", source, why ? why : "unknown reason");
    }
    *parts = dlsym(plugin->handle, "bt_exported");
    return check_export(source, *parts);
}

static bool is_cpp(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, ".cpp") == 0 || strcmp(dot, ".cc") == 0 || strcmp(dot, ".cxx") == 0);
}

static bt_status open_builtin(const char *name, const bt_builtin *builtins, const bt_export **parts)
{
    int64_t count = 0;
    for (; builtins && builtins[count].stem; count++)
        if (strcmp(builtins[count].stem, name) == 0) {
            *parts = builtins[count].parts;
            return check_export(name, *parts);
        }
    if (is_cpp(name))
        return bt_fail(BT_ERROR_CONFIG,
                       "%s: problems that are compiled at the start of a run must be .c files; a program can add "
                       "problems in C++ with bt_engine_use, as examples/embed.cpp does",
                       name);
    const char **names = bt_alloc_array((size_t)count + 1, sizeof *names);
    bt_text text = {0};
    for (int64_t i = 0; names && i < count; i++)
        names[i] = builtins[i].stem;
    const char *nearest = names ? bt_nearest(name, names) : NULL;
    if (nearest)
        bt_text_add(&text, "did you mean `%s`? ", nearest);
    bt_text_add(&text, "There are: ");
    for (int64_t i = 0; i < count; i++)
        bt_text_add(&text, "%s, ", builtins[i].stem);
    bt_status s = bt_fail(BT_ERROR_CONFIG, "there is no built-in problem file `%s`; %sor the path of a .c file", name,
                          bt_text_get(&text));
    bt_text_free(&text);
    bt_free(names);
    return s;
}

/* FOLDER/NAME, never beginning with -, which the compiler would take for an option. */
static void source_path(const char *name, const char *folder, bt_text *path)
{
    bool plain = *name == '/' || !folder || !*folder || strcmp(folder, ".") == 0;
    const char *first = plain ? name : folder;
    bt_text_add(path, "%s%s%s%s", *first == '-' ? "./" : "", plain ? "" : folder, plain ? "" : "/", name);
}

bt_status bt_plugin_open(const char *name, const char *folder, const bt_builtin *builtins, bt_plugin **plugin,
                         const bt_export **parts)
{
    if (!name || !plugin || !parts)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_plugin_open: an argument is NULL");
    *parts = NULL;
    *plugin = bt_alloc(sizeof **plugin);
    if (!*plugin)
        return BT_ERROR_MEMORY;
    size_t length = strlen(name);
    bt_status s;
    if (length > 2 && strcmp(name + length - 2, ".c") == 0) {
        bt_text path = {0};
        source_path(name, folder, &path);
        s = path.failed ? BT_ERROR_MEMORY : open_file(bt_text_get(&path), *plugin, parts);
        bt_text_free(&path);
    } else {
        s = open_builtin(name, builtins, parts);
    }
    if (s != BT_OK) {
        bt_plugin_close(*plugin);
        *plugin = NULL;
        *parts = NULL;
    }
    return s;
}
