/* SPDX-License-Identifier: MIT */
/*
 * part.c - parts of leases, kept and shown.
 *
 * They come in the order of their numbers: one that was made of another has a higher one.
 */
#include "libclient/lease/part.h"
#include <stdlib.h>
#include <string.h>

struct rdmad_kept_part {
    struct rdmad_kept_part *next; /* in its bucket */
    struct rdmad_part told;
    uint64_t parent;  /* the number that told.parent has now */
    uint32_t resumes; /* of the session, when a daemon last told of it */
};

/* With the lock: where it hangs, or would. */
static struct rdmad_kept_part **part_at(struct rdmad_session *s, uint64_t number) {
    struct rdmad_kept_part **at = &s->parts[number % RDMAD_LEASE_BUCKETS];
    while (*at && (*at)->told.lease != number)
        at = &(*at)->next;
    return at;
}

static void part_forget(struct rdmad_kept_part **at) {
    struct rdmad_kept_part *p = *at;
    *at = p->next;
    free(p);
}

/* Those that the present daemon told of, or all. */
static void parts_forget(struct rdmad_session *s, bool all) {
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++) {
        struct rdmad_kept_part **at = &s->parts[i];
        while (*at) {
            if (all || (*at)->resumes == s->resumes)
                part_forget(at);
            else
                at = &(*at)->next;
        }
    }
}

/* Without memory it ends with its daemon. */
void rdmad_part_on_event(struct rdmad_session *s, const void *body) {
    struct rdmad_part told;
    memcpy(&told, body, sizeof(told));
    struct rdmad_kept_part **at = part_at(s, told.lease);
    if (!told.lease) {
        parts_forget(s, false);
        return;
    }
    if (!told.parent) {
        if (*at)
            part_forget(at);
        return;
    }
    if (!*at)
        *at = calloc(1, sizeof(**at));
    if (!*at)
        return;
    (*at)->told = told;
    (*at)->parent = told.parent;
    (*at)->resumes = s->resumes;
}

void rdmad_parts_renumber(struct rdmad_session *s, uint64_t from, uint64_t to) {
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++) {
        for (struct rdmad_kept_part *p = s->parts[i]; p; p = p->next) {
            if (p->parent == from && p->resumes != s->resumes)
                p->parent = to;
        }
    }
}

void rdmad_parts_dispose(struct rdmad_session *s) {
    parts_forget(s, true);
}

/* ---- at the next daemon -------------------------------------------------------------------- */

static int part_by_number(const void *x, const void *y) {
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* With the lock: the numbers of those of which this daemon has not told, in order; the caller's to
 * free. Without memory there are none. */
static uint64_t *parts_to_show(const struct rdmad_session *s, size_t *count) {
    size_t room = 0;
    *count = 0;
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++)
        for (const struct rdmad_kept_part *p = s->parts[i]; p; p = p->next)
            room++;
    uint64_t *number = room ? calloc(room, sizeof(*number)) : NULL;
    for (unsigned i = 0; number && i < RDMAD_LEASE_BUCKETS; i++) {
        for (const struct rdmad_kept_part *p = s->parts[i]; p; p = p->next) {
            if (p->resumes != s->resumes)
                number[(*count)++] = p->told.lease;
        }
    }
    if (number)
        qsort(number, *count, sizeof(*number), part_by_number);
    return number;
}

/* With the lock, released meanwhile. */
static int part_show(struct rdmad_session *s, uint64_t number) {
    const struct rdmad_kept_part *p = *part_at(s, number);
    if (!p)
        return 0; /* the daemon has said that it has ended */
    struct rdmad_part_resume_req request = {.part = p->told, .parent = p->parent};
    struct rdmad_call call = {.type = RDMAD_MSG_PART_RESUME,
                              .request = &request,
                              .request_size = sizeof(request),
                              .quiet = true,
                              .one_try = true};
    pthread_mutex_unlock(&s->lock);
    int rc = rdmad_control_hand_back(s, &call);
    pthread_mutex_lock(&s->lock);
    struct rdmad_kept_part **at = part_at(s, number);
    if (rdmad_control_drained(s, rc))
        rc = RDMAD_E_DAEMON_LOST;
    else if (rc && rc != RDMAD_E_DAEMON_LOST && *at)
        part_forget(at);
    return rc;
}

void rdmad_parts_resume(struct rdmad_session *s) {
    size_t count;
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    uint64_t *number = parts_to_show(s, &count);
    for (size_t i = 0; i < count && rc != RDMAD_E_DAEMON_LOST; i++)
        rc = part_show(s, number[i]);
    pthread_mutex_unlock(&s->lock);
    free(number);
}
