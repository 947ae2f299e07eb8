/* SPDX-License-Identifier: MIT */
/*
 * audit.c - the queue between those who see an event and the thread that writes it.
 *
 * Everything is under one lock, which nobody holds while writing. The queue is of a fixed size: the
 * disk or the journal may hang for as long as they like, and all that happens is that records are
 * counted instead of queued. The thread also wakes up when a minute is over of which something was
 * skipped, and tells how much.
 */
#include "daemon/base/audit.h"
#include "daemon/base/audit_count.h"
#include "daemon/base/audit_file.h"
#include "daemon/base/audit_limit.h"
#include "daemon/base/audit_record.h"
#include "daemon/base/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/thread.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define QUEUE 256u
#define PATH_BYTES 256u
#define STOP_WAIT_S 1

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work; /* on CLOCK_MONOTONIC once the thread was started */
    struct audit_limit limit;
    struct audit_counts counts;
    struct audit_record queue[QUEUE];
    unsigned first, count;
    uint64_t lost; /* found the queue full */
    bool running, stopping, reopen;
    char path[PATH_BYTES];
    pthread_t thread;
    /* The thread's, while it runs. */
    struct audit_file file;
    uint64_t missing; /* events that it did not take */
    int why;          /* the last of them */
} audit = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = {.fd = -1}};

/* ---- writing; without the lock ------------------------------------------------------------- */

static bool append_record(const struct audit_record *r) {
    char line[AUDIT_LINE_MAX];
    return audit_file_append(&audit.file, line, audit_record_json(r, line));
}

/* What the file did not take, on a full disk, say, is told once when that begins, and counted; the
 * count stands in the file and in the log when it takes events again. */
static bool append_missing(void) {
    struct audit_record r;
    const struct audit_who nobody = audit_nobody();
    audit_record_fill(
        &r, AUDIT_THROTTLED, "audit.slow", &nobody, audit_nothing(),
        log_format("%" PRIu64 " events were not written: %s", audit.missing, strerror(audit.why)));
    if (!append_record(&r))
        return false;
    LOG_LIMITED(NOTICE,
                ("audit.file takes events again; %" PRIu64 " are in the log alone", audit.missing));
    audit.missing = 0;
    return true;
}

static void append_to_file(const struct audit_record *r) {
    if ((!audit.missing || append_missing()) && append_record(r))
        return;
    audit.why = errno;
    if (!audit.missing++)
        LOG_LIMITED(ERR, ("audit.file takes no events, they are in the log alone until it does: %s",
                          strerror(errno)));
}

static void write_record(struct audit_record *r) {
    if (r->skipped) {
        size_t used = strlen(r->text);
        char more[80];
        int n = snprintf(more, sizeof(more), " (%" PRIu64 " more like it were not written)",
                         r->skipped);
        size_t most = sizeof(r->text) - 1 - (size_t)n;
        memcpy(r->text + (used < most ? used : most), more, (size_t)n + 1);
    }
    audit_record_log(r);
    append_to_file(r);
}

static void write_skipped(const struct audit_skipped *s) {
    struct audit_record r;
    const struct audit_who nobody = audit_nobody();
    audit_record_fill(
        &r, s->event, s->cause, &nobody, audit_nothing(),
        log_format("of %s, %" PRIu64 " more like it were not written", s->who, s->count));
    audit_record_log(&r);
    append_to_file(&r);
}

static void write_lost(uint64_t lost) {
    LOG(WARNING,
        ("audit: %" PRIu64 " events were not written: the log or the disk was too slow", lost));
    struct audit_record r;
    const struct audit_who nobody = audit_nobody();
    audit_record_fill(
        &r, AUDIT_THROTTLED, "audit.slow", &nobody, audit_nothing(),
        log_format("%" PRIu64 " events were not written: the disk was too slow", lost));
    append_to_file(&r);
}

static void reopen_file(const char *path) {
    struct error why;
    if (audit_file_open(&audit.file, path, &why))
        LOG(ERR, ("%s; the one that was open goes on", why.text));
    else if (!*path)
        audit.missing = 0; /* nobody wants them any more */
}

/* ---- the thread -------------------------------------------------------------------------------
 */

/* Under the lock: until there is something to do, or a minute is over. */
static void wait_for_work(void) {
    uint64_t now = clock_now_ns(), next = audit_limit_next(&audit.limit, now);
    struct timespec until;
    if (next == CLOCK_NEVER) {
        pthread_cond_wait(&audit.work, &audit.lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + clock_left(now, next);
    until.tv_sec += (time_t)(ns / NSEC_PER_SEC);
    until.tv_nsec = (long)(ns % NSEC_PER_SEC);
    pthread_cond_timedwait(&audit.work, &audit.lock, &until);
}

/* Each of these does one thing and takes the lock again; false: there was nothing to do. */
static bool do_reopen(void) {
    char path[PATH_BYTES];
    if (!audit.reopen)
        return false;
    audit.reopen = false;
    memcpy(path, audit.path, sizeof(path));
    pthread_mutex_unlock(&audit.lock);
    reopen_file(path);
    pthread_mutex_lock(&audit.lock);
    return true;
}

static bool do_record(void) {
    struct audit_record r;
    if (!audit.count)
        return false;
    r = audit.queue[audit.first];
    audit.first = (audit.first + 1) % QUEUE;
    audit.count--;
    pthread_mutex_unlock(&audit.lock);
    write_record(&r);
    pthread_mutex_lock(&audit.lock);
    return true;
}

static bool do_counts(void) {
    struct audit_skipped skipped;
    uint64_t lost = audit.lost;
    bool some = audit_limit_tell(&audit.limit, audit.stopping, clock_now_ns(), &skipped);
    if (!some && !lost)
        return false;
    audit.lost = 0;
    pthread_mutex_unlock(&audit.lock);
    if (some)
        write_skipped(&skipped);
    if (lost)
        write_lost(lost);
    pthread_mutex_lock(&audit.lock);
    return true;
}

static void *audit_run(void *arg) {
    (void)arg;
    pthread_mutex_lock(&audit.lock);
    for (;;) {
        if (do_reopen() || do_record() || do_counts())
            continue;
        if (audit.stopping)
            break;
        wait_for_work();
    }
    audit.running = false;
    pthread_mutex_unlock(&audit.lock);
    return NULL;
}

/* ---- from outside ------------------------------------------------------------------------------
 */

/* Under the lock. */
static void enqueue(const struct audit_record *r) {
    if (audit.count == QUEUE) {
        audit.lost++;
        return;
    }
    audit.queue[(audit.first + audit.count++) % QUEUE] = *r;
    pthread_cond_signal(&audit.work);
}

void audit_write(enum audit_event event, const char *cause, struct audit_who who,
                 struct audit_object object, const char *text) {
    struct audit_record r;
    uint32_t skipped;
    pthread_mutex_lock(&audit.lock);
    audit_count_add(&audit.counts, event, cause);
    bool counting = audit.limit.counting;
    bool pass = audit_limit_pass(&audit.limit, event, cause, &who, clock_now_ns(), &skipped);
    bool running = audit.running;
    if (pass) {
        audit_record_fill(&r, event, cause, &who, object, text);
        r.skipped = skipped;
        if (running)
            enqueue(&r);
    } else if (running && !counting) {
        pthread_cond_signal(&audit.work); /* a count has begun, which is to be told in time */
    }
    pthread_mutex_unlock(&audit.lock);
    if (pass)
        events_add(audit_event_name(event), cause, &who, object, text);
    if (pass && !running)
        write_record(&r);
}

void audit_count(struct audit_counts *out) {
    pthread_mutex_lock(&audit.lock);
    *out = audit.counts;
    pthread_mutex_unlock(&audit.lock);
}

static void init_condition(void) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&audit.work, &attr);
    pthread_condattr_destroy(&attr);
}

int audit_start(const char *file, struct error *err) {
    assert(!audit.running);
    int rc = audit_file_open(&audit.file, file, err);
    if (rc)
        return rc;
    init_condition();
    audit.stopping = audit.reopen = false;
    audit.running = true;
    rc = thread_start(&audit.thread, "rdmad-audit", audit_run, NULL, NULL, err);
    if (rc) {
        audit.running = false;
        audit_file_close(&audit.file);
    }
    return rc;
}

void audit_reopen(const char *file) {
    pthread_mutex_lock(&audit.lock);
    snprintf(audit.path, sizeof(audit.path), "%s", file);
    audit.reopen = true;
    if (audit.running)
        pthread_cond_signal(&audit.work);
    pthread_mutex_unlock(&audit.lock);
}

void audit_stop(void) {
    struct timespec until;
    pthread_mutex_lock(&audit.lock);
    bool running = audit.running;
    audit.stopping = true;
    if (running)
        pthread_cond_signal(&audit.work);
    pthread_mutex_unlock(&audit.lock);
    if (!running)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_WAIT_S;
    if (pthread_timedjoin_np(audit.thread, NULL, &until))
        return; /* it hangs in a write; it ends with the process */
    audit_file_close(&audit.file);
}
