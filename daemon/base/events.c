/* SPDX-License-Identifier: MIT */
/*
 * events.c - one table of rows, in a list for each owner, the oldest first.
 */
#include "daemon/base/events.h"
#include "daemon/base/clock.h"
#include "daemon/base/list.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OWNERS (EVENTS_OWNERS + 2u)
#define DAEMON 0u
#define OTHERS (OWNERS - 1u)
#define DAEMON_COUNTS_AS 4u

struct kept_row {
    struct list node;
    struct event_row row;
};

struct event_owner {
    uid_t uid;
    char tenant[RDMAD_NAME_MAX + 1];
    unsigned count;
    struct list rows;
};

static struct {
    pthread_mutex_t lock;
    struct kept_row row[EVENTS_MAX];
    struct event_owner owner[OWNERS];
    unsigned used; /* of row, the first time round */
    uint64_t last;
} events = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Under the lock, all of these. */
static struct event_owner *event_owner_of(const struct audit_who *who) {
    struct event_owner *idle = NULL;
    const char *tenant = who->tenant ? who->tenant : "";
    if (who->kind != AUDIT_USER)
        return &events.owner[DAEMON];
    for (unsigned i = 1; i < OTHERS; i++) {
        struct event_owner *o = &events.owner[i];
        if (o->count && o->uid == who->uid && !strcmp(o->tenant, tenant))
            return o;
        if (!o->count && !idle)
            idle = o;
    }
    if (!idle)
        return &events.owner[OTHERS];
    idle->uid = who->uid;
    snprintf(idle->tenant, sizeof(idle->tenant), "%s", tenant);
    return idle;
}

static unsigned owner_weight(const struct event_owner *o) {
    return o == &events.owner[DAEMON] ? o->count / DAEMON_COUNTS_AS : o->count;
}

static struct kept_row *take_row(void) {
    struct event_owner *most = &events.owner[DAEMON];
    if (events.used < EVENTS_MAX)
        return &events.row[events.used++];
    for (unsigned i = 1; i < OWNERS; i++)
        if (events.owner[i].count && owner_weight(&events.owner[i]) >= owner_weight(most))
            most = &events.owner[i];
    most->count--;
    return list_entry(list_pop(&most->rows), struct kept_row, node);
}

static void init_lists(void) {
    if (events.owner[0].rows.next)
        return;
    for (unsigned i = 0; i < OWNERS; i++)
        list_init(&events.owner[i].rows);
}

void events_add(const char *what, const char *cause, const struct audit_who *who,
                struct audit_object object, const char *text) {
    pthread_mutex_lock(&events.lock);
    init_lists();
    struct kept_row *kept = take_row();
    struct event_owner *owner = event_owner_of(who);
    struct event_row *row = &kept->row;
    *row = (struct event_row){.number = ++events.last,
                              .at_ns = clock_now_ns(),
                              .at_s = (int64_t)time(NULL),
                              .of_user = who->kind == AUDIT_USER,
                              .uid = who->uid,
                              .what = what,
                              .cause = cause,
                              .object = object.kind,
                              .id = object.id,
                              .session = object.session};
    snprintf(row->tenant, sizeof(row->tenant), "%s", who->tenant ? who->tenant : "");
    size_t used = 0;
    log_escape(row->text, sizeof(row->text), &used, text);
    used = 0;
    if (who->kind == AUDIT_PEER && who->peer)
        log_escape(row->peer, sizeof(row->peer), &used, who->peer);
    owner->count++;
    list_init(&kept->node);
    list_append(&owner->rows, &kept->node);
    pthread_mutex_unlock(&events.lock);
}

static int by_number(const void *a, const void *b) {
    uint64_t x = (*(const struct event_row *const *)a)->number;
    uint64_t y = (*(const struct event_row *const *)b)->number;
    return x < y ? -1 : x > y;
}

unsigned events_read(uint64_t after, bool (*wanted)(void *arg, const struct event_row *e),
                     void *arg, struct event_row *out, unsigned room) {
    const struct event_row *found[EVENTS_MAX];
    unsigned count = 0;
    pthread_mutex_lock(&events.lock);
    for (unsigned i = 0; i < events.used; i++) {
        const struct event_row *row = &events.row[i].row;
        if (row->number > after && (!wanted || wanted(arg, row)))
            found[count++] = row;
    }
    qsort(found, count, sizeof(void *), by_number);
    unsigned first = count > room ? count - room : 0;
    for (unsigned i = first; i < count; i++)
        out[i - first] = *found[i];
    pthread_mutex_unlock(&events.lock);
    return count - first;
}

void events_forget(void) {
    pthread_mutex_lock(&events.lock);
    memset(events.owner, 0, sizeof(events.owner));
    events.used = 0;
    init_lists();
    pthread_mutex_unlock(&events.lock);
}
