/* SPDX-License-Identifier: MIT */
/*
 * resolve.c - a thread a look-up; see resolve.h.
 *
 * The happy path: a lookup is RUNNING on a thread of its own, which posts it back when getaddrinfo
 * has returned; delivered, it tells whoever asked, and the next one that may run begins.
 *
 * The failures: no thread can be made (told as such, through the mailbox like any answer); the name
 * does not resolve; nobody wants the answer any more (it is dropped when it comes); the resolver is
 * gone by then. Only for the last do threads share anything: `closed`, under the lock, decides who
 * frees a lookup, and the last of resolver and threads to go frees the resolver.
 */
#include "daemon/base/resolve.h"
#include "daemon/base/list.h"
#include "daemon/base/thread.h"
#include <assert.h>
#include <errno.h>
#include <rdmad/abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES (1u << 20) /* modules of the name service are other people's code */

struct resolver {
    pthread_t owner; /* whoever asks, and is answered */
    struct mailbox *reply_to;
    resolve_call *call;
    struct list waiting, running;
    unsigned nrunning;

    pthread_mutex_t lock;
    unsigned refs; /* its owner, and each lookup that has a thread or is on its way back */
    bool closed;
};

struct lookup {
    struct mail mail; /* first of all, the thread's */
    struct resolver *resolver;
    struct list node;
    bool runs;
    struct user_id user;
    resolve_done *done; /* NULL: cancelled */
    void *arg;
    int failed;       /* EAI_* */
    int system_error; /* EAI_SYSTEM; or why there is no thread, with failed 0 and nothing found */
    struct addrinfo *found;
    char service[8];
    char host[]; /* with its end */
};

static void resolver_unref(struct resolver *r) {
    pthread_mutex_lock(&r->lock);
    assert(r->refs);
    bool last = --r->refs == 0;
    pthread_mutex_unlock(&r->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void lookup_free(struct lookup *l) {
    if (l->found)
        freeaddrinfo(l->found);
    free(l);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void lookup_explain(const struct lookup *l, struct error *out) {
    *out = (struct error){0};
    if (l->found)
        return;
    if (!l->failed) {
        error_set(out, RDMAD_E_SYSTEM, "no thread to look up \"%.100s\" on: %s", l->host,
                  strerror(l->system_error));
        return;
    }
    error_set(out, RDMAD_E_UNREACHABLE,
              "the name \"%.100s\" does not resolve: %.80s; `getent ahosts %s` asks as rdmad does",
              l->host,
              l->failed == EAI_SYSTEM ? strerror(l->system_error) : gai_strerror(l->failed),
              strlen(l->host) < 30 ? l->host : "NAME");
}

static void resolver_next(struct resolver *r);

static void lookup_deliver(struct mail *mail) {
    struct lookup *l = container_of(mail, struct lookup, mail);
    struct resolver *r = l->resolver;
    assert(r->closed || thread_is(r->owner));
    if (!r->closed) { /* written by this thread alone */
        list_remove(&l->node);
        assert(r->nrunning);
        r->nrunning--;
        if (l->done) {
            struct error result;
            struct addrinfo *found = l->found;
            lookup_explain(l, &result);
            l->found = NULL;
            l->done(l->arg, &result, found);
        }
    }
    lookup_free(l);
    if (!r->closed)
        resolver_next(r);
    resolver_unref(r);
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void *lookup_thread(void *arg) {
    struct lookup *l = arg;
    struct resolver *r = l->resolver;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG};
    errno = 0;
    l->failed = r->call(l->host, l->service, &hints, &l->found);
    l->system_error = errno;
    pthread_mutex_lock(&r->lock);
    bool closed = r->closed;
    if (!closed)
        mailbox_post(r->reply_to, &l->mail, lookup_deliver);
    pthread_mutex_unlock(&r->lock);
    if (closed) {
        lookup_free(l);
        resolver_unref(r);
    }
    return NULL;
}

/* ---- whose turn it is ---------------------------------------------------------------------- */

static unsigned resolver_running_for(const struct resolver *r, struct user_id user) {
    unsigned n = 0;
    list_for_each (node, &r->running)
        n += user_id_same(list_entry(node, struct lookup, node)->user, user);
    return n;
}

static bool resolver_may_run(const struct resolver *r, struct user_id user) {
    unsigned own = resolver_running_for(r, user);
    if (r->nrunning >= RESOLVE_THREADS_MAX || own >= RESOLVE_EACH_MAX)
        return false;
    return own == 0 || r->nrunning < RESOLVE_THREADS_MAX / 2;
}

static void lookup_run(struct lookup *l) {
    struct resolver *r = l->resolver;
    assert(!l->runs);
    list_remove(&l->node);
    list_append(&r->running, &l->node);
    r->nrunning++;
    l->runs = true;
    pthread_mutex_lock(&r->lock);
    r->refs++;
    pthread_mutex_unlock(&r->lock);
    const struct thread_options options = {.stack_bytes = STACK_BYTES, .detached = true};
    if (thread_start(NULL, "rdmad-resolve", lookup_thread, l, &options, NULL)) {
        l->system_error = errno; /* of nobody else: the thread that would have one is not there */
        mailbox_post(r->reply_to, &l->mail, lookup_deliver);
    }
}

static void resolver_next(struct resolver *r) {
    list_for_each_safe (node, &r->waiting) {
        struct lookup *l = list_entry(node, struct lookup, node);
        if (resolver_may_run(r, l->user))
            lookup_run(l);
    }
}

/* ---- from outside -------------------------------------------------------------------------- */

struct resolver *resolver_new(struct mailbox *reply_to, resolve_call *call) {
    struct resolver *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->reply_to = reply_to;
    r->call = call;
    r->owner = pthread_self();
    r->refs = 1;
    pthread_mutex_init(&r->lock, NULL);
    list_init(&r->waiting);
    list_init(&r->running);
    return r;
}

void resolver_free(struct resolver *r) {
    struct list *node;
    if (!r)
        return;
    assert(thread_is(r->owner));
    while ((node = list_pop(&r->waiting)))
        lookup_free(list_entry(node, struct lookup, node));
    pthread_mutex_lock(&r->lock);
    r->closed = true;
    pthread_mutex_unlock(&r->lock);
    resolver_unref(r);
}

struct lookup *resolver_ask(struct resolver *r, const char *host, uint16_t port,
                            struct user_id user, resolve_done *done, void *arg) {
    size_t size = strlen(host) + 1;
    assert(thread_is(r->owner));
    struct lookup *l = calloc(1, sizeof(*l) + size);
    if (!l)
        return NULL;
    l->resolver = r;
    l->user = user;
    l->done = done;
    l->arg = arg;
    memcpy(l->host, host, size);
    snprintf(l->service, sizeof(l->service), "%u", port);
    list_append(&r->waiting, &l->node);
    if (resolver_may_run(r, user))
        lookup_run(l);
    return l;
}

void lookup_cancel(struct lookup *l) {
    assert(thread_is(l->resolver->owner));
    if (l->runs) {
        assert(l->done);
        l->done = NULL;
        return;
    }
    list_remove(&l->node);
    lookup_free(l);
}

void lookup_wanted_by(struct lookup *l, struct user_id user) {
    if (l->runs || !resolver_may_run(l->resolver, user))
        return;
    l->user = user;
    lookup_run(l);
}

const char *lookup_waits_for(const struct lookup *l) {
    if (l->runs)
        return "the system's resolver, which has not answered";
    return resolver_running_for(l->resolver, l->user)
               ? "other names that the same user asked for, which the system's resolver has not "
                 "answered"
               : "names that others asked for, which the system's resolver has not answered";
}
