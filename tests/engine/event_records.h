/* tests/engine/event_records.h: reads the event files of a folder, record by record. */
#ifndef EVENT_RECORDS_H
#define EVENT_RECORDS_H

#include <stddef.h>

/* The events of all files, in order of file names, concatenated; the 9 bytes of time in each are left out. Both check
 * sums of each record are verified. The first records of a file (its version, and a START) are counted, but not part of
 * the bytes. Returns the number of bytes. */
typedef struct event_counts {
    int files, versions, starts, events; /* events: all others */
    size_t config;                       /* bytes up to the end of the configuration event, if there is one */
} event_counts;
size_t event_records(const char *folder, unsigned char *bytes, size_t room, event_counts *counts);

#endif
