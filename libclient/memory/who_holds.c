/* SPDX-License-Identifier: MIT */
/*
 * who_holds.c - looking for holders.
 */
#include "libclient/memory/who_holds.h"
#include <stdarg.h>
#include <stdio.h>

/* A list under construction. */
struct holder_list {
    uint64_t offset, length; /* of what is asked about */
    bool writes;
    unsigned max, count;
    char *text;
    size_t size, used;
};

/* Whether a holder of that range is of interest. */
static bool holder_fits(const struct holder_list *list, uint64_t offset, uint64_t length,
                        bool writes) {
    return (writes || list->writes) && offset < list->offset + list->length &&
           list->offset < offset + length;
}

static void __attribute__((format(printf, 2, 3)))
holder_add(struct holder_list *list, const char *format, ...) {
    va_list ap;
    if (list->count++ >= list->max || list->used + 1 >= list->size)
        return;
    if (list->count > 1)
        list->used += (size_t)snprintf(list->text + list->used, list->size - list->used, "; ");
    if (list->used + 1 >= list->size) {
        list->used = list->size - 1;
        return;
    }
    va_start(ap, format);
    int n = vsnprintf(list->text + list->used, list->size - list->used, format, ap);
    va_end(ap);
    list->used += n < 0 ? 0 : (size_t)n;
    if (list->used >= list->size)
        list->used = list->size - 1;
}

/* Where a holder's range begins, seen from the one that is asked about. */
static char holder_sign(const struct holder_list *list, uint64_t offset) {
    return offset < list->offset ? '-' : '+';
}

static unsigned long long holder_distance(const struct holder_list *list, uint64_t offset) {
    return offset < list->offset ? list->offset - offset : offset - list->offset;
}

static void list_holds(const struct rdmad_holds *holds, const struct rdmad_pool *pool,
                       struct holder_list *list) {
    for (uint32_t i = 0; i < holds->count; i++) {
        struct rdmad_hold h;
        if (!rdmad_hold_get(&holds->hold[i], &h) || h.pool != pool ||
            !holder_fits(list, h.offset, h.length, h.writes))
            continue;
        holder_add(list,
                   "op %s of %s %llu (user_data %llu, %llu bytes at buffer%c%llu) on ring %llu",
                   rdmad_hold_opcode_name(h.opcode), rdmad_hold_object_name(h.opcode),
                   (unsigned long long)h.object, (unsigned long long)h.user_data,
                   (unsigned long long)h.length, holder_sign(list, h.offset),
                   holder_distance(list, h.offset), (unsigned long long)holds->ring);
    }
}

/* With the holders' lock. */
static void list_locks(const struct rdmad_pool *pool, struct holder_list *list) {
    for (const struct rdmad_buf_lock *l = pool->holders.locks; l; l = l->next) {
        if (holder_fits(list, l->offset, l->length, l->writes))
            holder_add(list, "a %s lock (%llu bytes at buffer%c%llu) taken by thread %d",
                       l->writes ? "write" : "read", (unsigned long long)l->length,
                       holder_sign(list, l->offset), holder_distance(list, l->offset),
                       (int)l->thread);
    }
}

unsigned rdmad_holders_name(struct rdmad_pool *pool, uint64_t offset, uint64_t length, bool writes,
                            unsigned max, char *who, size_t size) {
    struct holder_list list = {.offset = offset,
                               .length = length,
                               .writes = writes,
                               .max = max,
                               .text = who,
                               .size = size};
    struct rdmad_session *s = pool->session;

    who[0] = '\0';
    pthread_mutex_lock(&s->lock);
    for (const struct rdmad_holds *h = s->holds; h; h = h->next)
        list_holds(h, pool, &list);
    pthread_mutex_lock(&pool->holders.lock);
    list_locks(pool, &list);
    pthread_mutex_unlock(&pool->holders.lock);
    pthread_mutex_unlock(&s->lock);
    return list.count;
}
