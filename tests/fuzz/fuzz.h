/* tests/fuzz/fuzz.h: shared by the fuzz targets. A target is a file fuzz_NAME.c that defines fuzz_one, and a folder
 * corpus/NAME of inputs. It is built twice: as the test fuzz.NAME, with mutate.c as its main program, and, by ./dev
 * fuzz, with libFuzzer. */
#ifndef FUZZ_H
#define FUZZ_H

#include "base/base.h"
#include <stdio.h>

/* Tries one input: it must be accepted, or refused with a message, without other effects. */
void fuzz_one(const uint8_t *data, size_t size);

/* A path from which these bytes can be read until the next call with the same slot, 0 or 1. */
const char *fuzz_file(int slot, const void *data, size_t size);

/* Aborts if `good` is false, as libFuzzer expects. */
void fuzz_check(bool good, const char *what);

/* Checks what must hold after every input: a failure has a message, no error is left behind, and memory is freed. */
void fuzz_refused(bool refused);

/* Checks that the values of a set are finite numbers, as many as it says, and frees it. NULL: the input was refused. */
typedef struct bt_dataset bt_dataset;
void fuzz_dataset(bt_dataset *data, const char *const *names, int count);

/* Resolves the settings; if they are valid, the printed form must read back to the same. Frees the configuration. */
typedef struct bt_config bt_config;
bt_config *fuzz_config(void);
void fuzz_resolve(bt_config *config);

#endif
