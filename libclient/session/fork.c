/* SPDX-License-Identifier: MIT */
/*
 * fork.c - a child of fork does not have its parent's sessions.
 *
 * The happy path: sessions are in a list; in the child of a fork each of them is lost, with its
 * descriptors closed and its rings' memory replaced by empty pages of the child's own. So a session
 * ends with the process that opened it although its children live on, a child cannot end its
 * parent's session by closing it, nor take its completions, and what a child tries fails with a
 * sentence.
 *
 * Pools stay mapped: a child may look at what is in them. What the library holds in ordinary memory
 * for the session stays too, as nobody knows in which state the parent's other threads had it; the
 * child's rdmad_close leaves all of it alone.
 *
 * Only the lists' own locks and that of ended objects are taken around fork. The child begins with
 * fresh ones of the other locks that all sessions share, for those that it opens itself, and of
 * each session's own. A public call that would need any other of an inherited session, or wait for
 * what only the parent's threads can do, looks first whether it is one.
 */
#include "libclient/session/fork.h"
#include "libclient/arena/magazine.h"
#include "libclient/base/clock.h"
#include "libclient/base/session.h"
#include "libclient/memory/guard_fault.h"
#include "libclient/memory/pool.h"
#include "libclient/ring/making.h"
#include "libclient/ring/ring.h"
#include "libclient/session/resume.h"
#include "libclient/session/resumer.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t sessions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rdmad_session *sessions;

static void fork_before(void) {
    pthread_mutex_lock(&sessions_lock);
    rdmad_resumers_before_fork();
    rdmad_objects_lock();
}

static void fork_in_parent(void) {
    rdmad_objects_unlock();
    rdmad_resumers_in_parent();
    pthread_mutex_unlock(&sessions_lock);
}

static void fork_close(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void fork_replace_memory(const void *memory, size_t bytes) {
    (void)mmap((void *)(uintptr_t)memory, bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* As if nothing had ever been published on it: what was in flight is lost. */
static void fork_leave_ring(struct rdmad_ring *r) {
    rdmad_making_in_child(r);
    fork_close(&r->wakeup);
    fork_close(&r->doorbell);
    fork_close(&r->epoll);
    fork_replace_memory(r->client, r->client_bytes);
    fork_replace_memory(r->daemon, r->daemon_bytes);
    r->cq_head = r->cq_tail = r->cq_head_published = 0;
    r->wakeup_state = RDMAD_WAKEUP_EMPTY;
}

static void fork_leave_session(struct rdmad_session *s) {
    pthread_mutex_init(&s->lock, NULL);
    rdmad_cond_init(&s->changed); /* threads that are not here may have been about to wait */
    fork_close(&s->sock);
    fork_close(&s->epoll);
    fork_close(&s->event_fd);
    fork_close(&s->back_fd);
    fork_close(&s->lifeline);
    if (s->resume) /* at the next daemon's, just connected */
        fork_close(&s->resume->fd);
    for (struct rdmad_ring *r = s->rings; r; r = r->next)
        fork_leave_ring(r);
    for (struct rdmad_pool *p = s->pools; p; p = p->next)
        fork_close(&p->fd);
    s->receiving = false;
    s->calls = NULL;
    s->lost_reason = RDMAD_E_DAEMON_LOST;
    snprintf(s->lost_text, sizeof(s->lost_text),
             "the session belongs to the process that has forked this one: a child opens its own");
    __atomic_store_n(&s->state, RDMAD_SESSION_INHERITED, __ATOMIC_RELEASE);
}

static void fork_in_child(void) {
    struct rdmad_session *s = sessions;
    rdmad_objects_unlock();
    rdmad_resumers_in_child();
    rdmad_magazines_in_child();
    rdmad_guard_lock_in_child();
    sessions = NULL;
    pthread_mutex_unlock(&sessions_lock);
    for (; s; s = s->next)
        fork_leave_session(s);
}

static void fork_watch(void) {
    pthread_atfork(fork_before, fork_in_parent, fork_in_child);
}

void rdmad_fork_add(struct rdmad_session *s) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fork_watch);
    pthread_mutex_lock(&sessions_lock);
    s->next = sessions;
    sessions = s;
    pthread_mutex_unlock(&sessions_lock);
}

void rdmad_fork_remove(struct rdmad_session *s) {
    struct rdmad_session **at;
    pthread_mutex_lock(&sessions_lock);
    for (at = &sessions; *at && *at != s; at = &(*at)->next)
        ;
    if (*at)
        *at = s->next;
    pthread_mutex_unlock(&sessions_lock);
}
