/* SPDX-License-Identifier: MIT */
/*
 * channel_steps.h - services and ends of channels of the rig's sessions, as tests make them.
 */
#ifndef RDMAD_TESTS_CHANNEL_STEPS_H
#define RDMAD_TESTS_CHANNEL_STEPS_H

#include "daemon/state/channel.h"
#include "tests/unit/lease_rig.h"
#include <criterion/criterion.h>
#include <string.h>

static inline struct service_terms service_terms(const char *name) {
    struct service_terms t = {0};
    strcpy(t.name, name);
    return t;
}

static inline struct service *service_up(struct session *s, const char *name, uint32_t backlog) {
    struct service_terms t = service_terms(name);
    struct service *sv = NULL;
    struct error err = {0};
    t.backlog = backlog;
    cr_assert_eq(service_listen(s, &t, &sv, &err), 0, "%s", err.text);
    return sv;
}

static inline struct channel *end_of(struct session *s, struct rig_done *done) {
    struct channel *ch = NULL;
    struct error err = {0};
    cr_assert_eq(channel_new(s, RDMAD_CHANNEL_RELIABLE, rig_done, done, &ch, &err), 0, "%s",
                 err.text);
    return ch;
}

/* The one that waits; asserted to be there. */
static inline struct incoming *waiting(struct service *sv) {
    cr_assert(!list_empty(&sv->incoming), "nobody waits");
    return list_entry(sv->incoming.next, struct incoming, node);
}

#endif
