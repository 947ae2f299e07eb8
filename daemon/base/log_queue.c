/* SPDX-License-Identifier: MIT */
/*
 * log_queue.c - entries of the log on their way to a thread that writes them.
 *
 * The queue is a ring of bytes. An entry lies in it as its two numbers and its bytes, and may go
 * over the end. Everything is under one lock, which nobody holds while writing.
 */
#include "daemon/base/log_queue.h"
#include "daemon/base/thread.h"
#include <assert.h>
#include <string.h>
#include <time.h>

#define QUEUE_BYTES (256u << 10)
#define STOP_WAIT_S 1

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    enum { LOG_DIRECT, LOG_QUEUED, LOG_STOPPING, LOG_STUCK } state;
    uint32_t first, used; /* of ring */
    uint64_t lost;        /* found no room */
    const struct log_queue_writer *writer;
    pthread_t thread;
    char ring[QUEUE_BYTES];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

/* ---- the ring; under the lock -------------------------------------------------------------- */

static void ring_write(const void *from, uint32_t size) {
    uint32_t at = (queue.first + queue.used) % QUEUE_BYTES;
    uint32_t to_end = size < QUEUE_BYTES - at ? size : QUEUE_BYTES - at;
    memcpy(queue.ring + at, from, to_end);
    memcpy(queue.ring, (const char *)from + to_end, size - to_end);
    queue.used += size;
}

static void ring_read(void *to, uint32_t size) {
    uint32_t to_end = size < QUEUE_BYTES - queue.first ? size : QUEUE_BYTES - queue.first;
    memcpy(to, queue.ring + queue.first, to_end);
    memcpy((char *)to + to_end, queue.ring, size - to_end);
    queue.first = (queue.first + size) % QUEUE_BYTES;
    queue.used -= size;
}

static const uint32_t numbers = offsetof(struct log_entry, bytes);

static void entry_put(const struct log_entry *entry) {
    if (QUEUE_BYTES - queue.used < numbers + entry->size) {
        queue.lost++;
        return;
    }
    ring_write(entry, numbers + entry->size);
    pthread_cond_signal(&queue.work);
}

static void entry_take(struct log_entry *entry) {
    ring_read(entry, numbers);
    assert(entry->size <= LOG_ENTRY_MAX && queue.used >= entry->size);
    ring_read(entry->bytes, entry->size);
}

/* ---- the thread ---------------------------------------------------------------------------- */

/* Each of these does one thing and takes the lock again; false: there was nothing to do. */
static bool write_next(void) {
    static struct log_entry entry;
    if (!queue.used)
        return false;
    entry_take(&entry);
    pthread_mutex_unlock(&queue.lock);
    queue.writer->write(&entry);
    pthread_mutex_lock(&queue.lock);
    return true;
}

static bool log_queue_write_lost(void) {
    uint64_t lost = queue.lost;
    if (!lost)
        return false;
    queue.lost = 0;
    pthread_mutex_unlock(&queue.lock);
    queue.writer->tell_lost(lost);
    pthread_mutex_lock(&queue.lock);
    return true;
}

static void *log_run(void *arg) {
    (void)arg;
    pthread_mutex_lock(&queue.lock);
    while (write_next() || log_queue_write_lost() || queue.state == LOG_QUEUED)
        if (!queue.used && !queue.lost && queue.state == LOG_QUEUED)
            pthread_cond_wait(&queue.work, &queue.lock);
    queue.state = LOG_DIRECT;
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

/* ---- from outside -------------------------------------------------------------------------- */

static void lock_for_fork(void) {
    pthread_mutex_lock(&queue.lock);
}

static void unlock_after_fork(void) {
    pthread_mutex_unlock(&queue.lock);
}

static void forget_after_fork(void) {
    queue.state = LOG_DIRECT;
    queue.used = 0;
    queue.lost = 0;
    pthread_mutex_unlock(&queue.lock);
}

int log_queue_start(const struct log_queue_writer *writer, struct error *err) {
    static bool forks_known;
    assert(queue.state == LOG_DIRECT);
    if (!forks_known)
        pthread_atfork(lock_for_fork, unlock_after_fork, forget_after_fork);
    forks_known = true;
    queue.writer = writer;
    queue.state = LOG_QUEUED;
    int rc = thread_start(&queue.thread, "rdmad-log", log_run, NULL, NULL, err);
    if (rc)
        queue.state = LOG_DIRECT;
    return rc;
}

bool log_queue_put(const struct log_entry *entry) {
    pthread_mutex_lock(&queue.lock);
    bool direct = queue.state == LOG_DIRECT;
    if (queue.state == LOG_QUEUED || queue.state == LOG_STOPPING)
        entry_put(entry);
    pthread_mutex_unlock(&queue.lock);
    return !direct;
}

void log_queue_stop(void) {
    struct timespec until;
    pthread_mutex_lock(&queue.lock);
    bool running = queue.state == LOG_QUEUED;
    if (running)
        queue.state = LOG_STOPPING;
    pthread_cond_signal(&queue.work);
    pthread_mutex_unlock(&queue.lock);
    if (!running)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_WAIT_S;
    if (!pthread_timedjoin_np(queue.thread, NULL, &until))
        return;
    pthread_mutex_lock(&queue.lock);
    queue.state = LOG_STUCK; /* in a write; the thread ends with the process */
    pthread_mutex_unlock(&queue.lock);
}
