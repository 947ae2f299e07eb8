/* SPDX-License-Identifier: MIT */
/*
 * log_queue.h - entries of the log on their way to a thread that writes them.
 *
 * A journal, a disk or a reader of standard error may hang for as long as it likes: nobody but this
 * thread waits for it. The queue is of a fixed size. What finds it full is counted, and the count
 * is written as soon as there is room again.
 *
 * Thread-safe. A child made by fork has no such thread, and writes for itself.
 */
#ifndef RDMAD_BASE_LOG_QUEUE_H
#define RDMAD_BASE_LOG_QUEUE_H

#include "daemon/base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_ENTRY_MAX 6144u

/* A line for standard error (parts is 0), or so many parts for the journal, a NUL behind each. */
struct log_entry {
    uint32_t parts, size;
    char bytes[LOG_ENTRY_MAX];
};

struct log_queue_writer {
    void (*write)(const struct log_entry *entry);
    void (*tell_lost)(uint64_t entries); /* writes that so many found the queue full */
};

/* Starts the thread, which calls the writer. RDMAD_E_SYSTEM: it cannot. */
int log_queue_start(const struct log_queue_writer *writer, struct error *err);
/* Whether the entry is dealt with: queued, or counted. If not, no thread runs, and the caller
 * writes it. */
bool log_queue_put(const struct log_entry *entry);
/* Gives the thread a second to write what is queued, and ends it. If it hangs in a write, whatever
 * comes afterwards is dropped: the process is about to end. */
void log_queue_stop(void);

#endif
