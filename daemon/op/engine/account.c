/* SPDX-License-Identifier: MIT */
/*
 * account.c - how many ops and waits there are: a count for the session, and two that several
 * workers share.
 */
#include "daemon/op/engine/account.h"
#include "daemon/base/rate.h"
#include "daemon/op/engine/worker.h"
#include <assert.h>
#include <stdlib.h>

#define FORGOTTEN_AT_ONCE 16u

/* ---- control thread ---------------------------------------------------------------------- */

struct op_account *account_find(const struct list *users, struct user_id who) {
    list_for_each (pos, users) {
        struct op_account *a = list_entry(pos, struct op_account, node);
        if (user_id_same(a->who, who))
            return a;
    }
    return NULL;
}

struct op_account *account_join(struct list *users, struct user_id who) {
    struct op_account *a = account_find(users, who);
    if (!a) {
        a = calloc(1, sizeof(*a));
        if (!a)
            return NULL;
        a->who = who;
        a->share = PLANE_SHARE_DEFAULT;
        list_init(&a->idle_node);
        list_append(users, &a->node);
    }
    list_remove(&a->idle_node);
    a->sessions++;
    return a;
}

static bool owes(const struct op_account *a, uint64_t now_ns) {
    uint64_t bytes_ns = __atomic_load_n(&a->bytes_due_ns, __ATOMIC_RELAXED);
    uint64_t ops_ns = __atomic_load_n(&a->ops_due_ns, __ATOMIC_RELAXED);
    uint64_t due_ns = bytes_ns > ops_ns ? bytes_ns : ops_ns;
    return due_ns && due_ns + RATE_BURST_NS > now_ns;
}

static void forget_idle(struct list *idle, uint64_t now_ns) {
    struct list kept, *pos;
    list_init(&kept);
    for (unsigned n = 0; n < FORGOTTEN_AT_ONCE && (pos = list_pop(idle)); n++) {
        struct op_account *a = list_entry(pos, struct op_account, idle_node);
        if (owes(a, now_ns)) {
            list_append(&kept, pos);
        } else {
            list_remove(&a->node);
            free(a);
        }
    }
    list_splice(idle, &kept);
}

void account_leave(struct list *idle, struct op_account *a, uint64_t now_ns) {
    if (!a)
        return;
    assert(a->sessions > 0);
    if (--a->sessions == 0)
        list_append(idle, &a->idle_node);
    forget_idle(idle, now_ns);
}

/* ---- worker ------------------------------------------------------------------------------ */

/* At most want, as far as the limit allows. */
static uint32_t account_take(uint64_t *count, uint64_t limit, uint32_t want) {
    uint64_t used = __atomic_load_n(count, __ATOMIC_RELAXED);
    for (;;) {
        uint64_t room = used < limit ? limit - used : 0;
        uint32_t part = room < want ? (uint32_t)room : want;
        if (!part || __atomic_compare_exchange_n(count, &used, used + part, true, __ATOMIC_RELAXED,
                                                 __ATOMIC_RELAXED))
            return part;
    }
}

static void give_back(uint64_t *count, uint32_t part) {
    __atomic_sub_fetch(count, part, __ATOMIC_RELAXED);
}

/* A limit of the user's own, or what holds for every user. */
static uint64_t own_or(const uint64_t *own, uint64_t everybodys) {
    uint64_t limit = __atomic_load_n(own, __ATOMIC_RELAXED);
    return limit ? limit : everybodys;
}

/* Up to where a user who has own may fill what all may have: an eighth stays free, or half of what
 * is free and the user's own. */
static uint64_t most_of_all(const struct worker *w, const uint64_t *all, uint64_t own,
                            uint64_t total) {
    uint64_t used = __atomic_load_n(all, __ATOMIC_RELAXED);
    uint64_t others = used > own ? used - own : 0, his = total > others ? total - others : 0;
    uint64_t kept = total / 8 < his / 2 ? total / 8 : his / 2;
    return w->settings->keeps_last ? total - kept : total;
}

int waits_room(const struct worker *w, struct op_session *s, uint64_t *whose) {
    *whose = RDMAD_LIMIT_SESSION;
    if (s->waits >= own_or(&s->account->max_session_waits, w->settings->max_session_waits))
        return RDMAD_E_LIMIT;
    if (s->waits < s->waits_may)
        return 0;
    uint64_t had = __atomic_load_n(&s->account->waits, __ATOMIC_RELAXED);
    uint64_t most = own_or(&s->account->max_waits, w->settings->max_uid_waits);
    uint64_t of_total = most_of_all(w, &s->all->waits, had, w->settings->max_waits);
    uint32_t of_uid = account_take(&s->account->waits, most, WAITS_AT_ONCE);
    uint32_t of_all = of_uid ? account_take(&s->all->waits, of_total, of_uid) : 0;
    give_back(&s->account->waits, of_uid - of_all);
    s->waits_may += of_all;
    *whose = of_uid ? RDMAD_LIMIT_DAEMON : RDMAD_LIMIT_UID;
    return of_all ? 0 : RDMAD_E_LIMIT;
}

static void waits_return(struct op_session *s, uint32_t count) {
    s->waits_may -= count;
    give_back(&s->all->waits, count);
    give_back(&s->account->waits, count);
}

void waits_ended(struct op_session *s) {
    assert(s->waits > 0 && s->waits <= s->waits_may);
    s->waits--;
    if (s->waits_may - s->waits >= 2 * WAITS_AT_ONCE)
        waits_return(s, WAITS_AT_ONCE);
}

bool ops_more(const struct worker *w, struct op_session *s) {
    uint32_t most = w->settings->max_session_ops, want = OPS_AT_ONCE;
    if (s->ops_may >= most)
        return false;
    if (most - s->ops_may < want)
        want = most - s->ops_may;
    if (s->ops_may == 0) { /* the first of all */
        s->ops_may = s->ops_free = want;
        return true;
    }
    uint64_t had = __atomic_load_n(&s->account->ops, __ATOMIC_RELAXED);
    uint64_t of_total = most_of_all(w, &s->all->ops, had, w->settings->max_ops);
    uint32_t of_uid = account_take(&s->account->ops,
                                   own_or(&s->account->max_ops, w->settings->max_uid_ops), want);
    uint32_t of_all = of_uid ? account_take(&s->all->ops, of_total, of_uid) : 0;
    give_back(&s->account->ops, of_uid - of_all);
    s->ops_may += of_all;
    return of_all > 0;
}

static void ops_return(struct op_session *s, uint32_t count) {
    s->ops_may -= count;
    give_back(&s->all->ops, count);
    give_back(&s->account->ops, count);
}

void ops_fewer(struct op_session *s) {
    uint32_t taken = s->ops_may - s->ops_free;
    ops_return(s, taken < OPS_AT_ONCE ? taken : OPS_AT_ONCE);
}

/* All of it or nothing. */
static bool take_bytes(uint64_t *count, uint64_t limit, uint64_t bytes) {
    if (__atomic_add_fetch(count, bytes, __ATOMIC_RELAXED) <= limit)
        return true;
    __atomic_sub_fetch(count, bytes, __ATOMIC_RELAXED);
    return false;
}

bool names_charge(void *session, int64_t bytes) {
    struct op_session *s = session;
    const struct plane_settings *most = s->worker->settings;
    uint64_t more = (uint64_t)bytes;
    if (bytes < 0) {
        uint64_t less = (uint64_t)-bytes;
        s->name_bytes -= less;
        __atomic_sub_fetch(&s->account->name_bytes, less, __ATOMIC_RELAXED);
        __atomic_sub_fetch(&s->all->name_bytes, less, __ATOMIC_RELAXED);
        return true;
    }
    if (s->name_bytes + more > NAME_BYTES * (most->max_session_waits + most->max_session_ops) ||
        !take_bytes(&s->account->name_bytes, NAME_BYTES * (most->max_uid_waits + most->max_uid_ops),
                    more))
        return false;
    if (!take_bytes(&s->all->name_bytes, NAME_BYTES * (most->max_waits + most->max_ops), more)) {
        __atomic_sub_fetch(&s->account->name_bytes, more, __ATOMIC_RELAXED);
        return false;
    }
    s->name_bytes += more;
    return true;
}

void account_return(struct op_session *s) {
    waits_return(s, s->waits_may);
    ops_return(s, s->ops_may - s->ops_free);
}
