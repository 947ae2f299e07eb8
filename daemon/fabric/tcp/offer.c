/* SPDX-License-Identifier: MIT */
/*
 * offer.c - tokens, each random, for one peer, good for one connection and a short time; and with
 * each, where the connection is to be encrypted, the key by which both ends prove who they are.
 *
 * A connection is encrypted if one of the two ends wants it: the one that does not can, and what it
 * has in common with an end that insists must not be bytes in clear. It is told of in the log.
 */
#include "daemon/fabric/tcp/offer.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/fabric/tcp/target.h"
#include <stdlib.h>
#include <sys/random.h>

void offer_forget(struct tcp_offer *o) {
    list_remove(&o->node);
    list_remove(&o->same);
    list_remove(&o->mates);
    share_leave(o->share);
    explicit_bzero(&o->is, sizeof o->is);
    free(o);
}

/* All are good for the same time (token_ttl_ns), so the oldest is the first to go. */
void offers_expire(struct tcp *t) {
    struct list *node;
    while ((node = list_first(&t->offers))) {
        struct tcp_offer *o = list_entry(node, struct tcp_offer, node);
        if (t->now_ns < o->expires_ns) {
            tcp_timer_at(t, o->expires_ns);
            return;
        }
        offer_forget(o);
    }
}

/* The share may go with the last of them. */
void offers_drop(struct tcp *t, uint64_t peer, uint64_t number) {
    struct tcp_share *s = share_find(&t->shares, peer);
    struct list gone, *node;
    if (!s)
        return;
    list_init(&gone);
    list_for_each_safe (pos, &s->offers) {
        const struct tcp_offer *o = list_entry(pos, struct tcp_offer, mates);
        if (list_empty(&o->node) || (number && o->is.number != number))
            continue;
        list_remove(pos);
        list_append(&gone, pos);
    }
    while ((node = list_first(&gone)))
        offer_forget(list_entry(node, struct tcp_offer, mates));
}

/* Numbers are unique in the process, not only on a worker: a peer that says that it has closed a
 * connection names it by number alone, and no other worker may take it for its own. */
static uint64_t offer_next_number(void) {
    static uint64_t last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

bool encryption_wanted(const struct tcp *t, bool secured) {
    enum encrypt_choice choice = t->env->settings->encrypt;
    return choice == ENCRYPT_ALWAYS || (choice == ENCRYPT_AUTO && secured);
}

/* What the peer's hello and we want. */
static int encryption_agree(const struct tcp *t, bool secured, const struct fabric_blob *hello,
                            bool *encrypt, struct error *err) {
    if (!wish_read(hello, encrypt))
        return error_set(err, RDMAD_E_PROTOCOL,
                         "the peer asks for a data connection of another fabric than tcp, or of "
                         "another version (its hello has %u bytes, which tcp's here has not): give "
                         "both daemons the same \"fabric\", and run the same version of rdmad",
                         hello->size);
    if (*encrypt && t->env->settings->encrypt == ENCRYPT_OFF)
        LOG_LIMITED(NOTICE, ("a peer wants data connections encrypted: so they are, though "
                             "tcp.encrypt is \"off\" here"));
    *encrypt |= encryption_wanted(t, secured);
    return 0;
}

static struct tcp_offer *offer_new(struct tcp *t, uint64_t peer) {
    struct tcp_offer *o = calloc(1, sizeof *o);
    struct tcp_share *share = o ? share_join(&t->shares, peer) : NULL;
    if (!share) {
        free(o);
        return NULL;
    }
    o->share = share;
    list_init(&o->node);
    list_init(&o->same);
    list_append(&share->offers, &o->mates);
    return o;
}

static bool random_bytes(void *to, size_t n) {
    return getrandom(to, n, 0) == (ssize_t)n;
}

static int offer_fill(struct tcp_offer *o, const struct tcp *t, bool encrypt, struct error *err) {
    o->is = (struct invitation){.port = t->port, .number = offer_next_number(), .encrypt = encrypt};
    if (!random_bytes(o->is.token, sizeof o->is.token) ||
        (encrypt && !random_bytes(o->is.secret, sizeof o->is.secret)))
        return error_errno(err, RDMAD_E_SYSTEM, "no random bytes for a data connection's token");
    return 0;
}

int tcp_offer(struct fabric *f, uint64_t peer, bool secured, const struct fabric_blob *hello,
              struct fabric_blob *out, struct error *err) {
    struct tcp *t = container_of(f, struct tcp, base);
    bool encrypt;
    int rc = encryption_agree(t, secured, hello, &encrypt, err);
    if (rc)
        return rc;
    t->now_ns = t->env->now_ns(t->env->user);
    offers_expire(t);
    uint32_t used = share_connections(share_find(&t->shares, peer));
    if (used >= TCP_CONNS_PER_PEER)
        return error_set(err, RDMAD_E_LIMIT,
                         "the peer has %u data connections and unused offers of at most %u on this "
                         "worker; close some or wait until the offers expire",
                         used, TCP_CONNS_PER_PEER);
    struct tcp_offer *o = offer_new(t, peer);
    if (!o)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a data connection's token");
    rc = offer_fill(o, t, encrypt, err);
    if (rc) {
        offer_forget(o);
        return rc;
    }
    o->expires_ns = clock_after(t->now_ns, t->env->settings->token_ttl_ns);
    list_append(&t->offers, &o->node);
    list_append(&t->tokens[o->is.token[0]], &o->same);
    tcp_timer_at(t, o->expires_ns);
    offer_put(out, &o->is);
    return 0;
}

/* Each offer whose token has that first byte is compared with every byte: time tells how many those
 * are, and nothing about the other fifteen. */
struct tcp_offer *offer_take(struct tcp *t, const uint8_t token[FRAME_TOKEN_BYTES]) {
    struct tcp_offer *found = NULL;
    list_for_each (pos, &t->tokens[token[0]]) {
        struct tcp_offer *o = list_entry(pos, struct tcp_offer, same);
        volatile uint8_t differs = 0;
        for (unsigned i = 0; i < FRAME_TOKEN_BYTES; i++)
            differs = (uint8_t)(differs | (o->is.token[i] ^ token[i]));
        if (!differs)
            found = o;
    }
    if (!found || t->now_ns >= found->expires_ns)
        return NULL;
    list_remove(&found->node);
    list_remove(&found->same);
    return found;
}
