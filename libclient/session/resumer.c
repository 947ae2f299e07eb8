/* SPDX-License-Identifier: MIT */
/*
 * resumer.c - who watches which sessions, and whose turn it is.
 *
 * The happy path: the thread sleeps until a socket ends, or a session has asked to be looked at. It
 * steps one session at a time, first the one that has been due for longest (resume.h). When one has
 * been handed back to the next daemon, those that have found none look at once. When that says
 * nothing to one, those that have no patience left are given up. The thread ends with the last
 * session at its daemon.
 *
 * The lock of the lists is never held while a session's is taken, nor the other way round.
 */
#include "libclient/session/resumer.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/session.h"
#include "libclient/session/resume.h"
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct rdmad_resumer {
    struct rdmad_resumer *next;
    struct sockaddr_un address;
    struct rdmad_resume *list;
    struct rdmad_resume *busy; /* which the thread is at */
    int wake_fd;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* one is not busy any more */
static struct rdmad_resumer *resumers;

/* ---- the thread ---------------------------------------------------------------------------- */

/* With the lock, released meanwhile: sleeps until something may be due. */
static void resumer_sleep(struct rdmad_resumer *w) {
    uint64_t next_ns = UINT64_MAX;
    nfds_t count = 1;
    for (const struct rdmad_resume *r = w->list; r; r = r->next)
        count++;
    struct pollfd *p = calloc(count, sizeof(*p)), only = {.fd = w->wake_fd, .events = POLLIN};
    struct pollfd *at = p ? p : &only;
    at[0] = only;
    count = 1;
    for (struct rdmad_resume *r = w->list; r; r = r->next) {
        /* First: one that goes away just now is due, or its socket has ended. */
        bool open = rdmad_is_open(r->session);
        uint64_t due_ns = rdmad_resume_next_ns(r);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
        r->place = 0;
        if (!p || !open)
            continue;
        r->place = (unsigned)count;
        p[count++] = (struct pollfd){.fd = r->session->sock, .events = POLLRDHUP};
    }
    pthread_mutex_unlock(&list_lock);
    int timeout = rdmad_poll_timeout(next_ns);
    poll(at, count, p ? timeout : timeout < 0 || timeout > 100 ? 100 : timeout);
    pthread_mutex_lock(&list_lock);
    for (struct rdmad_resume *r = w->list; r; r = r->next) {
        if (r->place && r->place < count && p[r->place].revents)
            r->due = true;
        r->place = 0;
    }
    free(p);
}

/* With the lock: whose turn it is. NULL: nobody is due. */
static struct rdmad_resume *resumer_next(const struct rdmad_resumer *w) {
    struct rdmad_resume *next = NULL;
    uint64_t now = rdmad_monotonic_ns(), next_ns = UINT64_MAX;
    for (struct rdmad_resume *r = w->list; r; r = r->next) {
        rdmad_resume_note_away(r, now);
        uint64_t turn_ns = rdmad_resume_turn_ns(r, now);
        if (turn_ns >= next_ns)
            continue;
        next = r;
        next_ns = turn_ns;
    }
    return next;
}

/* With the lock, released meanwhile. */
static void resumer_step(struct rdmad_resumer *w) {
    pthread_mutex_unlock(&list_lock);
    const struct rdmad_session *stepped = w->busy->session;
    enum rdmad_resume_found found = rdmad_resume_step(w->busy);
    pthread_mutex_lock(&list_lock);
    uint64_t now = rdmad_monotonic_ns();
    for (struct rdmad_resume *r = w->list; r; r = r->next) {
        if (found == RDMAD_FOUND_DAEMON)
            rdmad_resume_hurry(r, now);
        else if (found == RDMAD_FOUND_SILENCE)
            rdmad_resume_despair(r, stepped, now);
    }
    w->busy = NULL;
    pthread_cond_broadcast(&changed);
}

/* With the lock: nobody knows it any more. */
static void resumer_end(struct rdmad_resumer *w) {
    struct rdmad_resumer **at;
    for (at = &resumers; *at != w; at = &(*at)->next)
        ;
    *at = w->next;
    close(w->wake_fd);
    free(w);
}

static void *resumer_main(void *resumer) {
    struct rdmad_resumer *w = resumer;
    pthread_mutex_lock(&list_lock);
    while (w->list) {
        eventfd_t value;
        resumer_sleep(w);
        (void)eventfd_read(w->wake_fd, &value);
        while ((w->busy = resumer_next(w)))
            resumer_step(w);
    }
    resumer_end(w);
    pthread_mutex_unlock(&list_lock);
    return NULL;
}

static bool resumer_start(struct rdmad_resumer *w) {
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t thread;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's */
    bool running = pthread_create(&thread, &attr, resumer_main, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return running;
}

/* ---- a session comes and goes -------------------------------------------------------------- */

/* With the lock. NULL: there is no descriptor (*no_fd), memory or thread for it. */
static struct rdmad_resumer *resumer_new(const struct rdmad_resume *first, bool *no_fd) {
    struct rdmad_resumer *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->address = first->address;
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *no_fd = w->wake_fd < 0;
    if (!*no_fd && resumer_start(w)) { /* it waits for the lock */
        w->next = resumers;
        return resumers = w;
    }
    if (!*no_fd)
        close(w->wake_fd);
    free(w);
    return NULL;
}

static struct rdmad_resumer *resumer_of(const struct rdmad_resume *r, bool *no_fd) {
    struct rdmad_resumer *w = resumers;
    while (w && strcmp(w->address.sun_path, r->address.sun_path) != 0)
        w = w->next;
    return w ? w : resumer_new(r, no_fd);
}

/* The thread sleeps no longer. In a child of fork there is none. */
static void resumer_wake(const struct rdmad_session *s) {
    if (s->resume && s->resume->resumer->wake_fd >= 0)
        (void)eventfd_write(s->resume->resumer->wake_fd, 1);
}

/* True: the session is watched, and has back_fd. */
static bool resumer_list(struct rdmad_resume *r, int back_fd, bool *no_fd) {
    struct rdmad_session *s = r->session;
    struct rdmad_resume **at;
    pthread_mutex_lock(&list_lock);
    r->resumer = resumer_of(r, no_fd);
    if (r->resumer) {
        s->resume = r;
        s->back_fd = back_fd;
        s->wake_resumer = resumer_wake;
        for (at = &r->resumer->list; *at; at = &(*at)->next)
            ;
        *at = r;
        resumer_wake(s);
    }
    pthread_mutex_unlock(&list_lock);
    return r->resumer != NULL;
}

/* Without memory or a thread a session is as it was before it could be resumed. */
int rdmad_resumer_watch(struct rdmad_session *s, const struct sockaddr_un *address,
                        const char *name) {
    struct rdmad_resume *r;
    int rc = rdmad_resume_new(s, address, name, &r);
    if (rc || !r)
        return rc;
    int back_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    bool no_fd = back_fd < 0;
    if (!no_fd && resumer_list(r, back_fd, &no_fd))
        return 0;
    if (no_fd)
        rc = rdmad_fail_errno(s, RDMAD_E_SYSTEM, "no descriptor to resume the session by");
    if (back_fd >= 0)
        close(back_fd);
    rdmad_resume_free(r);
    return rc;
}

void rdmad_resumer_leave(struct rdmad_session *s) {
    struct rdmad_resume *r = s->resume, **at;
    if (!r)
        return;
    pthread_mutex_lock(&s->lock);
    s->resume = NULL; /* nobody wakes the thread by it any more */
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&list_lock);
    while (r->resumer->busy == r)
        pthread_cond_wait(&changed, &list_lock);
    for (at = &r->resumer->list; *at != r; at = &(*at)->next)
        ;
    *at = r->next;
    (void)eventfd_write(r->resumer->wake_fd, 1); /* it may have been the last one */
    pthread_mutex_unlock(&list_lock);
    rdmad_resume_free(r);
}

/* ---- fork ---------------------------------------------------------------------------------- */

void rdmad_resumers_before_fork(void) {
    pthread_mutex_lock(&list_lock);
}

void rdmad_resumers_in_parent(void) {
    pthread_mutex_unlock(&list_lock);
}

/* What they were stays where it is, like all of an inherited session. */
void rdmad_resumers_in_child(void) {
    pthread_cond_init(&changed, NULL); /* threads of the parent may have waited */
    for (struct rdmad_resumer *w = resumers; w; w = w->next) {
        close(w->wake_fd);
        w->wake_fd = -1;
    }
    resumers = NULL;
    pthread_mutex_unlock(&list_lock);
}
