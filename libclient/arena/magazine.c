/* SPDX-License-Identifier: MIT */
/*
 * magazine.c - threads' stocks of small pieces.
 *
 * A thread has one struct rdmad_magazines for each depot it has used, in a list of its own. The
 * same object hangs in its depot's list, so that both ends can come first: a thread that exits
 * gives its stock back to the depot; a depot that ends marks the object dead and leaves it to its
 * thread, which frees it the next time it looks for a magazine, or when it exits. The registry's
 * lock is held for either, so they cannot miss each other.
 *
 * Each object has a mutex of its own, which nobody but its thread takes, except when the pool has
 * run dry and the stocks are called back. Uncontended it costs a few nanoseconds.
 */
#include "libclient/arena/magazine.h"
#include <stdlib.h>
#include <string.h>

#define MAGAZINE_MAX 32u
#define MAGAZINE_BYTES 16384u /* a thread keeps at most this much of a class, but at least 4 */

struct magazine {
    unsigned count;
    uint64_t piece[MAGAZINE_MAX];
};

struct rdmad_magazines {
    struct rdmad_magazines *mine;       /* the thread's next one */
    struct rdmad_magazines *next, **at; /* in the depot's list */
    struct rdmad_depot *depot;
    uint64_t depot_id;
    bool dead; /* atomic: the depot is gone */
    pthread_mutex_t lock;
    struct magazine of_class[RDMAD_CLASSES];
};

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_exit;
static bool have_key;
static __thread struct rdmad_magazines *mine;

static unsigned magazine_capacity(unsigned cls) {
    size_t n = MAGAZINE_BYTES / rdmad_class_bytes(cls);
    return n > MAGAZINE_MAX ? MAGAZINE_MAX : n < 4 ? 4 : (unsigned)n;
}

/* Gives the count oldest pieces back. With the magazine's lock. */
static void magazine_drain(struct rdmad_magazines *m, struct magazine *of, unsigned count) {
    pthread_mutex_lock(&m->depot->lock);
    for (unsigned i = 0; i < count; i++)
        rdmad_spans_give(&m->depot->spans, of->piece[i]);
    pthread_mutex_unlock(&m->depot->lock);
    of->count -= count;
    memmove(of->piece, of->piece + count, of->count * sizeof(of->piece[0]));
}

/* With the registry's lock, or the depot could end meanwhile. */
static void magazines_drain(struct rdmad_magazines *m) {
    pthread_mutex_lock(&m->lock);
    for (unsigned c = 0; c < RDMAD_CLASSES; c++)
        magazine_drain(m, &m->of_class[c], m->of_class[c].count);
    pthread_mutex_unlock(&m->lock);
}

/* With the registry's lock. */
static void magazines_unlink(struct rdmad_magazines *m) {
    *m->at = m->next;
    if (m->next)
        m->next->at = m->at;
}

static void magazines_destroy(struct rdmad_magazines *m) {
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static void magazines_thread_exits(void *unused) {
    (void)unused;
    pthread_mutex_lock(&registry);
    while (mine) {
        struct rdmad_magazines *m = mine;
        mine = m->mine;
        if (!__atomic_load_n(&m->dead, __ATOMIC_RELAXED)) {
            magazines_drain(m);
            magazines_unlink(m);
        }
        magazines_destroy(m);
    }
    pthread_mutex_unlock(&registry);
}

static void magazines_make_key(void) {
    have_key = pthread_key_create(&at_exit, magazines_thread_exits) == 0;
}

/* Frees the calling thread's objects whose depot is gone. */
static void magazines_sweep(void) {
    for (struct rdmad_magazines **at = &mine; *at;) {
        struct rdmad_magazines *m = *at;
        if (__atomic_load_n(&m->dead, __ATOMIC_ACQUIRE)) {
            *at = m->mine;
            magazines_destroy(m);
        } else {
            at = &m->mine;
        }
    }
}

/* NULL when there is no memory for one, or no way to hear of the thread's end: then we do without.
 */
static struct rdmad_magazines *magazines_make(struct rdmad_depot *d) {
    struct rdmad_magazines *m;
    magazines_sweep();
    pthread_once(&once, magazines_make_key);
    if (!have_key || pthread_setspecific(at_exit, &mine) != 0 || !(m = calloc(1, sizeof(*m))))
        return NULL;
    m->depot = d;
    m->depot_id = d->id;
    pthread_mutex_init(&m->lock, NULL);
    m->mine = mine;
    mine = m;
    pthread_mutex_lock(&registry);
    m->next = d->threads;
    m->at = &d->threads;
    if (m->next)
        m->next->at = &m->next;
    d->threads = m;
    pthread_mutex_unlock(&registry);
    return m;
}

static struct rdmad_magazines *magazines_find(struct rdmad_depot *d) {
    for (struct rdmad_magazines *m = mine; m; m = m->mine) {
        if (m->depot_id == d->id)
            return m;
    }
    return magazines_make(d);
}

uint64_t rdmad_magazine_take(struct rdmad_depot *d, unsigned cls) {
    struct rdmad_magazines *m = magazines_find(d);
    uint64_t piece = RDMAD_ARENA_NONE;
    if (!m) {
        pthread_mutex_lock(&d->lock);
        if (rdmad_spans_take(&d->spans, cls, &piece, 1) == 0)
            piece = RDMAD_ARENA_NONE;
        pthread_mutex_unlock(&d->lock);
        return piece;
    }
    struct magazine *of = &m->of_class[cls];
    pthread_mutex_lock(&m->lock);
    if (of->count == 0) {
        pthread_mutex_lock(&d->lock);
        of->count = rdmad_spans_take(&d->spans, cls, of->piece, magazine_capacity(cls) / 2);
        pthread_mutex_unlock(&d->lock);
    }
    if (of->count)
        piece = of->piece[--of->count];
    pthread_mutex_unlock(&m->lock);
    return piece;
}

void rdmad_magazine_give(struct rdmad_depot *d, unsigned cls, uint64_t offset) {
    struct rdmad_magazines *m = magazines_find(d);
    if (!m) {
        pthread_mutex_lock(&d->lock);
        rdmad_spans_give(&d->spans, offset);
        pthread_mutex_unlock(&d->lock);
        return;
    }
    struct magazine *of = &m->of_class[cls];
    pthread_mutex_lock(&m->lock);
    if (of->count == magazine_capacity(cls))
        magazine_drain(m, of, magazine_capacity(cls) / 2);
    of->piece[of->count++] = offset;
    pthread_mutex_unlock(&m->lock);
}

void rdmad_magazines_reclaim(struct rdmad_depot *d) {
    pthread_mutex_lock(&registry);
    for (struct rdmad_magazines *m = d->threads; m; m = m->next)
        magazines_drain(m);
    pthread_mutex_unlock(&registry);
}

void rdmad_magazines_drop(struct rdmad_depot *d) {
    pthread_mutex_lock(&registry);
    for (struct rdmad_magazines *m = d->threads, *next; m; m = next) {
        next = m->next; /* dead, m may be freed by its thread at any time */
        __atomic_store_n(&m->dead, true, __ATOMIC_RELEASE);
    }
    d->threads = NULL;
    pthread_mutex_unlock(&registry);
    magazines_sweep();
}

/* What the parent's threads had stays where it is, like all of an inherited pool. */
void rdmad_magazines_in_child(void) {
    pthread_mutex_init(&registry, NULL);
    mine = NULL;
}
