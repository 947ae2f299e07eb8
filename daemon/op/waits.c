/* SPDX-License-Identifier: MIT */
/*
 * waits.c - three counts of ops that wait, of which two are shared.
 */
#include "daemon/op/waits.h"
#include "daemon/op/call.h"
#include <stdlib.h>

/* ---- control thread ---------------------------------------------------------------------- */

struct waits_account *waits_join(struct plane *p, uid_t uid) {
    list_for_each (pos, &p->waits_of_uids) {
        struct waits_account *a = list_entry(pos, struct waits_account, node);
        if (a->uid == uid) {
            a->sessions++;
            return a;
        }
    }
    struct waits_account *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->uid = uid;
    a->sessions = 1;
    list_append(&p->waits_of_uids, &a->node);
    return a;
}

void waits_leave(struct plane *p, struct waits_account *uid) {
    (void)p;
    if (!uid || --uid->sessions)
        return;
    list_remove(&uid->node);
    free(uid);
}

/* ---- worker ------------------------------------------------------------------------------ */

/* At most want, as far as the limit allows. */
static uint32_t take(struct waits_account *a, uint64_t limit, uint32_t want) {
    uint64_t used = __atomic_load_n(&a->used, __ATOMIC_RELAXED);
    for (;;) {
        uint64_t room = used < limit ? limit - used : 0;
        uint32_t part = room < want ? (uint32_t)room : want;
        if (!part || __atomic_compare_exchange_n(&a->used, &used, used + part, true,
                                                 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return part;
    }
}

static void give_back(struct waits_account *a, uint32_t count) {
    __atomic_sub_fetch(&a->used, count, __ATOMIC_RELAXED);
}

static int take_more(const struct worker *w, struct op_session *s, uint64_t *whose) {
    uint32_t of_uid = take(s->waits_uid, w->settings->max_uid_waits, WAITS_AT_ONCE);
    uint32_t of_all = of_uid ? take(s->waits_all, w->settings->max_waits, of_uid) : 0;
    give_back(s->waits_uid, of_uid - of_all);
    s->waits_taken += of_all;
    *whose = of_uid ? RDMAD_LIMIT_DAEMON : RDMAD_LIMIT_UID;
    return of_all ? 0 : RDMAD_E_LIMIT;
}

int waits_room(const struct worker *w, struct op_session *s, uint64_t *whose) {
    *whose = RDMAD_LIMIT_SESSION;
    if (s->waits >= w->settings->max_session_waits)
        return RDMAD_E_LIMIT;
    return s->waits < s->waits_taken ? 0 : take_more(w, s, whose);
}

static void return_some(struct op_session *s, uint32_t count) {
    s->waits_taken -= count;
    give_back(s->waits_all, count);
    give_back(s->waits_uid, count);
}

void waits_ended(struct op_session *s) {
    s->waits--;
    if (s->waits_taken - s->waits >= 2 * WAITS_AT_ONCE)
        return_some(s, WAITS_AT_ONCE);
}

void waits_return(struct op_session *s) {
    return_some(s, s->waits_taken);
}
