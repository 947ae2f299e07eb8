/* SPDX-License-Identifier: MIT */
/*
 * resumer.c - who watches which sessions, and whose turn it is.
 *
 * The happy path: the thread sleeps until a socket ends, or a session has asked to be looked at. It
 * steps one session at a time, first the one that has been due for longest (resume.h). When one has
 * been handed back to the next daemon, those that have found none look at once.
 *
 * Threads are there from the first session with their daemon to the end of the process. The lock of
 * the lists is never held while a session's is taken; the other way round is fine.
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
        uint64_t due_ns = rdmad_resume_next_ns(r);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
        r->place = 0;
        if (!p || !rdmad_is_open(r->session))
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

/* With the lock. */
static struct rdmad_resume *resumer_longest_due(const struct rdmad_resumer *w) {
    struct rdmad_resume *longest = NULL;
    uint64_t now = rdmad_monotonic_ns(), longest_ns = UINT64_MAX;
    for (struct rdmad_resume *r = w->list; r; r = r->next) {
        rdmad_resume_note_away(r, now);
        uint64_t due_ns = r->due ? 0 : rdmad_resume_next_ns(r);
        if (due_ns > now || due_ns >= longest_ns)
            continue;
        longest = r;
        longest_ns = due_ns;
    }
    return longest;
}

/* With the lock, released meanwhile. */
static void resumer_step(struct rdmad_resumer *w) {
    pthread_mutex_unlock(&list_lock);
    bool daemon_is_there = rdmad_resume_step(w->busy);
    pthread_mutex_lock(&list_lock);
    w->busy = NULL;
    pthread_cond_broadcast(&changed);
    for (struct rdmad_resume *r = w->list; r && daemon_is_there; r = r->next)
        rdmad_resume_hurry(r);
}

static void *resumer_main(void *resumer) {
    struct rdmad_resumer *w = resumer;
    pthread_mutex_lock(&list_lock);
    for (;;) {
        eventfd_t value;
        resumer_sleep(w);
        (void)eventfd_read(w->wake_fd, &value);
        while ((w->busy = resumer_longest_due(w)))
            resumer_step(w);
    }
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

/* With the lock: the one of that daemon. A new one takes wake_fd. NULL: no thread can be had. */
static struct rdmad_resumer *resumer_of(const struct sockaddr_un *address, int *wake_fd) {
    struct rdmad_resumer *w = resumers;
    while (w && strcmp(w->address.sun_path, address->sun_path) != 0)
        w = w->next;
    if (w || !(w = calloc(1, sizeof(*w))))
        return w;
    w->address = *address;
    w->wake_fd = *wake_fd;
    if (!resumer_start(w)) {
        free(w);
        return NULL;
    }
    *wake_fd = -1;
    w->next = resumers;
    resumers = w;
    return w;
}

/* The thread sleeps no longer. In a child of fork there is none. */
static void resumer_wake(const struct rdmad_session *s) {
    if (s->resume && s->resume->resumer->wake_fd >= 0)
        (void)eventfd_write(s->resume->resumer->wake_fd, 1);
}

/* Those that it takes are -1 then. Without a thread sessions are as they were before they could be
 * resumed. */
static bool resumer_list(struct rdmad_resume *r, int *back_fd, int *wake_fd) {
    struct rdmad_session *s = r->session;
    struct rdmad_resume **at;
    pthread_mutex_lock(&list_lock);
    r->resumer = resumer_of(&r->address, wake_fd);
    if (r->resumer) {
        s->resume = r;
        s->back_fd = *back_fd;
        *back_fd = -1;
        s->wake_resumer = resumer_wake;
        for (at = &r->resumer->list; *at; at = &(*at)->next)
            ;
        *at = r;
        resumer_wake(s);
    }
    pthread_mutex_unlock(&list_lock);
    return r->resumer != NULL;
}

int rdmad_resumer_watch(struct rdmad_session *s, const struct sockaddr_un *address,
                        const char *name) {
    struct rdmad_resume *r;
    int rc = rdmad_resume_new(s, address, name, &r);
    if (rc || !r)
        return rc;
    int back_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool listed = false;
    if (back_fd < 0 || wake_fd < 0)
        rc = rdmad_fail_errno(s, RDMAD_E_SYSTEM, "no descriptor to resume the session by");
    else
        listed = resumer_list(r, &back_fd, &wake_fd);
    if (back_fd >= 0)
        close(back_fd);
    if (wake_fd >= 0)
        close(wake_fd);
    if (!listed)
        rdmad_resume_free(r);
    return rc;
}

void rdmad_resumer_leave(struct rdmad_session *s) {
    struct rdmad_resume *r = s->resume, **at;
    if (!r)
        return;
    pthread_mutex_lock(&list_lock);
    while (r->resumer->busy == r)
        pthread_cond_wait(&changed, &list_lock);
    for (at = &r->resumer->list; *at && *at != r; at = &(*at)->next)
        ;
    if (*at)
        *at = r->next;
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
    pthread_mutex_init(&list_lock, NULL);
    pthread_cond_init(&changed, NULL);
    for (struct rdmad_resumer *w = resumers; w; w = w->next) {
        close(w->wake_fd);
        w->wake_fd = -1;
    }
    resumers = NULL;
}
