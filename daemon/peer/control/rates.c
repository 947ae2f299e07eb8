/* SPDX-License-Identifier: MIT */
/*
 * rates.c - two rates a name, which its connections find by looking at one another.
 */
#include "daemon/peer/control/rates.h"
#include "daemon/base/audit.h"
#include "daemon/base/rate.h"
#include "daemon/state/policy.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct peer_rates {
    char name[RDMAD_NAME_MAX + 1];
    unsigned refs;
    struct rate messages, questions;
    uint64_t messages_due_ns, questions_due_ns;
    uint64_t messages_told_ns, questions_told_ns; /* when it was told that each held it; 0: never */
};

static struct peer_rates *rates_find(const struct peers *ps, const char *name) {
    list_for_each (node, &ps->all) {
        struct peer_rates *r = list_entry(node, struct peer, node)->rates;
        if (r && strcmp(r->name, name) == 0)
            return r;
    }
    return NULL;
}

bool rates_join(struct peer *p, const char *name) {
    if (p->rates)
        return true;
    struct peer_rates *r = rates_find(p->peers, name);
    if (!r) {
        r = calloc(1, sizeof(*r));
        if (!r)
            return false;
        strncpy(r->name, name, sizeof(r->name) - 1);
        r->messages.due_ns = &r->messages_due_ns;
        r->questions.due_ns = &r->questions_due_ns;
    }
    r->refs++;
    p->rates = r;
    return true;
}

void rates_leave(struct peer *p) {
    struct peer_rates *r = p->rates;
    p->rates = NULL;
    if (r && --r->refs == 0)
        free(r);
}

static void rates_change(struct rate *r, uint64_t per_second) {
    if (r->per_second == per_second)
        return;
    r->per_second = per_second;
    r->rest = 0;
    *r->due_ns = 0;
}

void rates_set(struct peer *p, uint64_t messages, uint64_t questions) {
    if (!p->rates)
        return;
    rates_change(&p->rates->messages, messages);
    rates_change(&p->rates->questions, questions);
}

static bool rates_is_question(const struct peer_msg *m) {
    switch (m->type) {
    case PEER_MSG_ATTACH_REQ:
    case PEER_MSG_REQUEST_REQ:
    case PEER_MSG_DELEGATE_REQ:
    case PEER_MSG_KEY_REQ:
    case PEER_MSG_LINK_REQ:
    case PEER_MSG_CHAN_REQ:
    case PEER_MSG_CHAN_AGAIN:
    case PEER_MSG_NAMES_REQ:
    case PEER_MSG_WATCH_REQ:
        return true;
    default:
        return false;
    }
}

void rates_use(struct peer *p, const struct peer_msg *m) {
    uint64_t now_ns = state_now(p->peers->state);
    if (!p->rates)
        return;
    rate_use(&p->rates->messages, 1, now_ns);
    if (rates_is_question(m))
        rate_use(&p->rates->questions, 1, now_ns);
}

/* ---- that it is held ----------------------------------------------------------------------- */

struct held {
    const char *cause, *what, *setting;
    uint64_t per_second, *told_ns;
};

static void rates_tell(const struct peer *p, const struct held *h) {
    uint64_t now_ns = state_now(p->peers->state), last_ns = *h->told_ns;
    char text[PEER_TEXT];
    if (!h->per_second || (last_ns && now_ns < last_ns + PLANE_TOLD_NS)) /* 0: lifted meanwhile */
        return;
    *h->told_ns = now_ns;
    AUDIT(THROTTLED, h->cause, peer_who(p), audit_object("peer", p->id),
          ("%s is beyond its %" PRIu64 " %s a second (%s): what it sends waits", peer_text(p, text),
           h->per_second, h->what, h->setting));
}

void rates_tell_held(struct peer *p) {
    struct peer_rates *r = p->rates;
    uint64_t now_ns = state_now(p->peers->state);
    if (!r)
        return;
    const struct held messages = {"rate.messages", "messages", "messages_per_second",
                                  r->messages.per_second, &r->messages_told_ns};
    const struct held questions = {"rate.questions", "questions", "questions_per_second",
                                   r->questions.per_second, &r->questions_told_ns};
    bool more_questions = rate_wait_ns(&r->questions, now_ns) > rate_wait_ns(&r->messages, now_ns);
    rates_tell(p, more_questions ? &questions : &messages);
}

void rates_tell_throttled(struct peer *p, enum plane_rate by) {
    const struct policy *policy = p->peers->state->policy;
    if (!policy)
        return;
    const struct plane_share *share = &policy_peer(policy, p->secured ? p->name : "")->share;
    const struct held bytes = {"rate.bytes", "bytes", "bytes_per_second", share->bytes_per_second,
                               &p->throttled_ns[PLANE_RATE_BYTES]};
    const struct held ops = {"rate.ops", "ops", "ops_per_second", share->ops_per_second,
                             &p->throttled_ns[PLANE_RATE_OPS]};
    rates_tell(p, by == PLANE_RATE_BYTES ? &bytes : &ops);
}

uint64_t rates_wait_ns(const struct peer *p, uint64_t now_ns) {
    if (!p->rates)
        return 0;
    uint64_t messages = rate_wait_ns(&p->rates->messages, now_ns);
    uint64_t questions = rate_wait_ns(&p->rates->questions, now_ns);
    return messages > questions ? messages : questions;
}
