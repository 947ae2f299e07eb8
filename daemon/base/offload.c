/* SPDX-License-Identifier: MIT */
/*
 * offload.c - one thread, one queue, jobs in order.
 *
 * A job is queued through its mail's link, and reported through the same mail when it has run.
 */
#include "daemon/base/offload.h"
#include "daemon/base/list.h"
#include <rdmad/abi.h>
#include <signal.h>
#include <stdlib.h>

struct offload {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct mail *head, **tail;
    bool stopping;
};

static struct offload_job *job_of(struct mail *mail) {
    return container_of(mail, struct offload_job, mail);
}

static void deliver_done(struct mail *mail) {
    struct offload_job *job = job_of(mail);
    job->done(job);
}

/* The next job; NULL when stopping and nothing is left. */
static struct offload_job *next_job(struct offload *o) {
    pthread_mutex_lock(&o->lock);
    while (!o->head && !o->stopping)
        pthread_cond_wait(&o->changed, &o->lock);
    struct mail *mail = o->head;
    if (mail) {
        o->head = mail->next;
        if (!o->head)
            o->tail = &o->head;
    }
    pthread_mutex_unlock(&o->lock);
    return mail ? job_of(mail) : NULL;
}

static void *run_jobs(void *arg) {
    struct offload *o = arg;
    struct offload_job *job;
    while ((job = next_job(o))) {
        job->run(job);
        mailbox_post(job->reply_to, &job->mail, deliver_done);
    }
    return NULL;
}

/* Signals are the control thread's: the new thread inherits a mask that blocks them all, but for
 * those that its own faults raise. */
static int start_thread(struct offload *o) {
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&o->thread, NULL, run_jobs, o);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return RDMAD_E_SYSTEM;
    pthread_setname_np(o->thread, "rdmad-register");
    return 0;
}

int offload_start(struct offload **out) {
    struct offload *o = calloc(1, sizeof(*o));
    if (!o)
        return RDMAD_E_NOMEM;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    o->tail = &o->head;
    int failed = start_thread(o);
    if (failed) {
        pthread_cond_destroy(&o->changed);
        pthread_mutex_destroy(&o->lock);
        free(o);
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
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

void offload_post(struct offload *o, struct offload_job *job) {
    job->mail.next = NULL;
    pthread_mutex_lock(&o->lock);
    *o->tail = &job->mail;
    o->tail = &job->mail.next;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
}
