/* tests/fuzz/fuzz.h: what the fuzz targets share. A target is a file fuzz_NAME.c that defines fuzz_one, and a folder
 * corpus/NAME of inputs. Built twice: as the test fuzz.NAME, with mutate.c as its main program, and, by ./dev fuzz,
 * with libFuzzer. */
#ifndef FUZZ_H
#define FUZZ_H

#include "base/base.h"
#include <stdio.h>

/* One input: it is taken or refused with a message, and nothing else happens. */
void fuzz_one(const uint8_t *data, size_t size);

/* A path at which these bytes can be read until the next call with the same slot, 0 or 1. */
const char *fuzz_file(int slot, const void *data, size_t size);

/* Ends the process where `good` is false, as libFuzzer wants it. */
void fuzz_check(bool good, const char *what);

/* What holds after every input: a failure has a message, and none is left behind; memory is given back. */
void fuzz_refused(bool refused);

/* The values of a set are finite numbers, as many as it says; it is freed. NULL: refused. */
typedef struct bt_dataset bt_dataset;
void fuzz_dataset(bt_dataset *data, const char *const *names, int count);

/* The settings are resolved; if they are good, what is printed of them reads back to the same. The configuration is
 * freed. */
typedef struct bt_config bt_config;
bt_config *fuzz_config(void);
void fuzz_resolve(bt_config *config);

#endif
