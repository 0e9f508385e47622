/* tests/engine/event_records.h: the files of events of a folder, read record by record. */
#ifndef EVENT_RECORDS_H
#define EVENT_RECORDS_H

#include <stddef.h>

/* The events of all files, in the order of their names, one behind the other: in each its 9 bytes of time are left out.
 * Both sums of each record are checked. What a file begins with (its version, and a START) is counted, and not among
 * the bytes. Returns how many bytes there are. */
typedef struct event_counts {
    int files, versions, starts, events; /* events: all others */
    size_t config;                       /* bytes up to the end of the configuration, if that is among them */
} event_counts;
size_t event_records(const char *folder, unsigned char *bytes, size_t room, event_counts *counts);

#endif
