/* SPDX-License-Identifier: MIT */
/*
 * offload.c - threads that take turns between owners.
 *
 * An owner is either waiting (its first job is in the list of those, the others in that job's line)
 * or busy (a thread runs a job of it, and its line is the thread's). A thread takes the owner that
 * waits longest, runs one job, and puts the owner behind all others if there is more. Nothing is
 * allocated for it, so posting cannot fail.
 *
 * Each thread sleeps on a condition of its own: on one of several, glibc before 2.41 may lose a
 * signal (bug 25847), and then a job waits for the next one.
 *
 * A thread is made when an owner waits and none sleeps. When that fails, the ones that are
 * there do the work; the first was made at the start, so there is one.
 */
#include "daemon/base/offload.h"
#include "daemon/base/slice.h"
#include "daemon/base/thread.h"
#include <assert.h>
#include <errno.h>
#include <rdmad/abi.h>
#include <stdlib.h>
#include <unistd.h>

struct offload_worker {
    struct offload *offload;
    pthread_t thread;
    pthread_cond_t woken;
    bool asleep; /* and nobody has woken it yet */
    bool busy;
    uint64_t owner;   /* busy: whose job it runs, */
    uint64_t job;     /* and its number */
    struct list line; /* and that owner's next ones */
};

struct offload {
    pthread_mutex_t lock;
    struct list waiting; /* of the first jobs of owners */
    unsigned nwaiting, threads;
    uint64_t begun; /* jobs, so far */
    bool stopping;
    struct offload_worker worker[OFFLOAD_THREADS];
};

static struct offload_job *job_at(struct list *node) {
    return list_entry(node, struct offload_job, node);
}

static void offload_deliver(struct mail *mail) {
    struct offload_job *job = container_of(mail, struct offload_job, mail);
    job->done(job);
}

/* ---- whose turn it is, with the lock ------------------------------------------------------- */

static void offload_append(struct offload *o, struct offload_job *first, struct list *others) {
    list_init(&first->line);
    list_splice(&first->line, others);
    list_append(&o->waiting, &first->node);
    o->nwaiting++;
}

/* Where the owner's jobs line up; NULL: it has none. */
static struct list *offload_line(struct offload *o, uint64_t owner) {
    for (unsigned i = 0; i < o->threads; i++)
        if (o->worker[i].busy && o->worker[i].owner == owner)
            return &o->worker[i].line;
    list_for_each (node, &o->waiting)
        if (job_at(node)->owner == owner)
            return &job_at(node)->line;
    return NULL;
}

static struct offload_job *offload_begin(struct offload *o, struct offload_worker *w) {
    struct list *node;
    while (!(node = list_pop(&o->waiting))) {
        if (o->stopping)
            return NULL;
        w->asleep = true;
        while (w->asleep)
            pthread_cond_wait(&w->woken, &o->lock);
    }
    struct offload_job *job = job_at(node);
    o->nwaiting--;
    w->busy = true;
    w->owner = job->owner;
    w->job = ++o->begun;
    list_splice(&w->line, &job->line);
    return job;
}

static void offload_end(struct offload *o, struct offload_worker *w) {
    struct list *next = list_pop(&w->line);
    assert(w->busy);
    w->busy = false;
    if (next)
        offload_append(o, job_at(next), &w->line);
}

/* ---- the threads --------------------------------------------------------------------------- */

static void *offload_thread(void *arg) {
    struct offload_worker *w = arg;
    struct offload *o = w->offload;
    struct offload_job *job;
    slice_default(); /* a worker may have started it */
    pthread_mutex_lock(&o->lock);
    while ((job = offload_begin(o, w))) {
        pthread_mutex_unlock(&o->lock);
        job->run(job);
        mailbox_post(job->reply_to, &job->mail, offload_deliver); /* it may be gone with that */
        pthread_mutex_lock(&o->lock);
        offload_end(o, w);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

static int offload_thread_start(struct offload *o) {
    struct offload_worker *w = &o->worker[o->threads];
    w->offload = o;
    list_init(&w->line);
    pthread_cond_init(&w->woken, NULL);
    int rc = thread_start(&w->thread, "rdmad-register", offload_thread, w, NULL, NULL);
    if (rc == 0)
        o->threads++;
    else
        pthread_cond_destroy(&w->woken);
    return rc;
}

static void offload_wake(struct offload_worker *w) {
    w->asleep = false;
    pthread_cond_signal(&w->woken);
}

/* Somebody is to take one more owner: who sleeps, or else somebody new, or who is ready next. */
static void offload_wake_one(struct offload *o) {
    for (unsigned i = 0; i < o->threads; i++) {
        if (o->worker[i].asleep) {
            offload_wake(&o->worker[i]);
            return;
        }
    }
    if (o->threads < OFFLOAD_THREADS && !o->stopping)
        (void)offload_thread_start(o);
}

static void offload_free(struct offload *o) {
    for (unsigned i = 0; i < o->threads; i++)
        pthread_cond_destroy(&o->worker[i].woken);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

int offload_start(struct offload **out) {
    struct offload *o = calloc(1, sizeof(*o));
    if (!o)
        return RDMAD_E_NOMEM;
    pthread_mutex_init(&o->lock, NULL);
    list_init(&o->waiting);
    pthread_mutex_lock(&o->lock);
    int failed = offload_thread_start(o);
    pthread_mutex_unlock(&o->lock);
    if (failed) {
        int why = errno;
        offload_free(o);
        errno = why;
        return failed;
    }
    *out = o;
    return 0;
}

void offload_stop(struct offload *o) {
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    o->stopping = true;
    unsigned threads = o->threads;
    for (unsigned i = 0; i < threads; i++)
        offload_wake(&o->worker[i]);
    pthread_mutex_unlock(&o->lock);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(o->worker[i].thread, NULL);
    offload_free(o);
}

void offload_post(struct offload *o, struct offload_job *job) {
    struct list none = LIST_INIT(none);
    assert(job->run && job->done && job->reply_to);
    pthread_mutex_lock(&o->lock);
    struct list *line = offload_line(o, job->owner);
    if (line) {
        list_append(line, &job->node);
    } else {
        offload_append(o, job, &none);
        offload_wake_one(o);
    }
    pthread_mutex_unlock(&o->lock);
}

unsigned offload_waiting(struct offload *o) {
    pthread_mutex_lock(&o->lock);
    unsigned waiting = o->nwaiting;
    pthread_mutex_unlock(&o->lock);
    return waiting;
}

void offload_progress(struct offload *o, struct offload_progress *out) {
    pthread_mutex_lock(&o->lock);
    *out = (struct offload_progress){.begun = o->begun, .waiting = o->nwaiting > 0};
    for (unsigned i = 0; i < o->threads; i++) {
        const struct offload_worker *w = &o->worker[i];
        if (w->busy && (!out->oldest || w->job < out->oldest))
            out->oldest = w->job;
    }
    pthread_mutex_unlock(&o->lock);
}
