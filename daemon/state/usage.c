/* SPDX-License-Identifier: MIT */
/*
 * usage.c - users and peers of usage.h.
 */
#include "daemon/state/usage.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void user_init(struct usage_user *user, struct user_id who, const char *tenant) {
    *user = (struct usage_user){.who = who, .row = USAGE_ROWS};
    snprintf(user->tenant, sizeof(user->tenant), "%s", tenant ? tenant : "");
    list_init(&user->node);
    list_init(&user->idle_node);
    list_init(&user->sessions);
}

void usage_init(struct usage *u) {
    *u = (struct usage){.nusers = 0};
    list_init(&u->users);
    list_init(&u->idle);
    user_init(&u->others, (struct user_id){.uid = (uid_t)-1}, NULL);
}

void usage_fini(struct usage *u) {
    for (struct list *node; (node = list_pop(&u->users));)
        free(list_entry(node, struct usage_user, node));
}

static struct usage_user *find_user(const struct usage *u, struct user_id who) {
    list_for_each (node, &u->users) {
        struct usage_user *user = list_entry(node, struct usage_user, node);
        if (user_id_same(user->who, who))
            return user;
    }
    return NULL;
}

static struct usage_user *usage_add_user(struct usage *u, struct user_id who, const char *tenant) {
    struct usage_user *user = malloc(sizeof(*user));
    if (!user)
        return NULL;
    user_init(user, who, tenant);
    if (u->nusers < USAGE_ROWS) {
        user->row = u->nusers;
        u->named[u->nusers++] = user;
    }
    list_append(&u->users, &user->node);
    return user;
}

struct usage_user *usage_join(struct usage *u, struct user_id who, const char *tenant,
                              struct list *session) {
    struct usage_user *user = find_user(u, who);
    if (!user)
        user = usage_add_user(u, who, tenant);
    if (!user)
        user = &u->others;
    if (!list_empty(&user->idle_node)) {
        list_remove(&user->idle_node);
        u->nidle--;
    }
    list_append(&user->sessions, session);
    return user;
}

/* The one that went first. */
static void forget_user(struct usage *u) {
    struct usage_user *user = list_entry(list_pop(&u->idle), struct usage_user, idle_node);
    u->nidle--;
    usage_add(&u->others.sums, &user->sums);
    histogram_sum(&u->others.latency, &user->latency);
    list_remove(&user->node);
    free(user);
}

void usage_leave(struct usage *u, struct usage_user *user, struct list *session,
                 const struct usage_sums *sums, const struct histogram *latency) {
    list_remove(session);
    usage_add(&user->sums, sums);
    histogram_sum(&user->latency, latency);
    if (user->row < USAGE_ROWS || user == &u->others || !list_empty(&user->sessions))
        return;
    list_append(&u->idle, &user->idle_node);
    if (++u->nidle > USAGE_IDLE)
        forget_user(u);
}

unsigned usage_peer(struct usage *u, const char *name) {
    for (unsigned i = 0; i < u->npeers; i++)
        if (!strcmp(u->peers[i].name, name))
            return i;
    if (u->npeers == USAGE_ROWS)
        return USAGE_ROWS;
    snprintf(u->peers[u->npeers].name, sizeof(u->peers[0].name), "%s", name);
    return u->npeers++;
}

void usage_add(struct usage_sums *to, const struct usage_sums *more) {
    to->ops += more->ops;
    to->ops_failed += more->ops_failed;
    to->bytes_read += more->bytes_read;
    to->bytes_written += more->bytes_written;
    for (unsigned code = 0; more->ops_failed && code < PLANE_CODES; code++)
        to->failed[code] += more->failed[code];
    to->rebuilds += more->rebuilds;
    to->retransmits += more->retransmits;
}

void usage_add_link(struct usage_sums *to, const struct plane_lane_stats *stats,
                    uint64_t rebuilds) {
    struct usage_sums sums = {.ops = stats->ops,
                              .ops_failed = stats->ops_failed,
                              .bytes_read = stats->bytes_read,
                              .bytes_written = stats->bytes_written,
                              .rebuilds = rebuilds,
                              .retransmits = stats->retransmits};
    memcpy(sums.failed, stats->failed, sizeof(sums.failed));
    usage_add(to, &sums);
}
