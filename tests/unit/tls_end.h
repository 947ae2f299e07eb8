/* SPDX-License-Identifier: MIT */
/*
 * tls_end.h - a daemon with an identity (owner_steps.h), and at the other end of its connections
 * the test itself, which speaks TLS and need not be polite. Each test program that includes it has
 * its own. The clock stands still unless something here moves it.
 */
#ifndef RDMAD_TEST_TLS_END_H
#define RDMAD_TEST_TLS_END_H

#include "daemon/base/offload.h"
#include "daemon/state/identity.h"
#include "tests/unit/owner_steps.h"
#include "tests/unit/pki_rig.h"
#include <event2/event.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static char ca[RIG_PATH], node[RIG_PATH]; /* of the cluster; of who is at the other end */

static inline void judge_anew(struct state *st) {
    peers_judge_anew(st->peers);
}

static inline void tls_up(void) {
    struct error err;
    owner_up(64);
    rig_init(ca, "here");
    rig_node(node, ca, (struct pki_terms){.name = "raw"});
    cr_assert_eq(offload_start(&rig.st.offload), 0);
    cr_assert_eq(identity_start(&rig.st, ca, judge_anew, &err), 0, "%s", err.text);
    cr_assert_str_eq(rig.st.node_name, "here");
}

/* The clock moves on, for the daemon rests after each handshake. */
static inline void pass_time(void) {
    rig_advance(2 * MS);
    settle();
}

/* What is left of handshakes is computed first, for then nothing comes to the mailbox any more.
 * They are judged by the identity, which goes after them, as in a daemon. */
static inline void tls_down(void) {
    for (int i = 0; i < 100; i++)
        pass_time();
    offload_stop(rig.st.offload);
    rig.st.offload = NULL;
    quiet();
    identity_stop(&rig.st);
    owner_down();
}

/* ---- the other end ------------------------------------------------------------------------- */

struct end {
    struct raw *raw;
    SSL *ssl;
    BIO *in, *out;
    uint8_t said[4096]; /* what the daemon said and nobody has looked at yet */
    size_t have;
    bool over; /* it has closed */
};

static inline struct end *end_new(struct raw *raw, SSL_CTX *ctx, bool accepts) {
    struct end *e = calloc(1, sizeof(*e));
    e->raw = raw;
    e->ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    e->in = BIO_new(BIO_s_mem());
    e->out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(e->in, -1);
    SSL_set_bio(e->ssl, e->in, e->out);
    if (accepts)
        SSL_set_accept_state(e->ssl);
    else
        SSL_set_connect_state(e->ssl);
    return e;
}

static inline void end_free(struct end *e) {
    SSL_free(e->ssl);
    raw_close(e->raw);
    free(e);
}

/* Sends what is to be sent; false: there was nothing. */
static inline bool end_flush(struct end *e) {
    uint8_t bytes[32768];
    int n = BIO_read(e->out, bytes, sizeof(bytes));
    if (n > 0)
        raw_bytes(e->raw, bytes, (size_t)n);
    return n > 0;
}

static inline void end_flush_all(struct end *e) {
    while (end_flush(e))
        ;
}

/* Takes in what has come. */
static inline void end_fill(struct end *e) {
    uint8_t bytes[32768];
    ssize_t n = recv(e->raw->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n > 0)
        BIO_write(e->in, bytes, (int)n);
    if (n == 0)
        e->over = true;
}

static inline bool end_shakes(struct end *e) {
    for (int i = 0; i < 2000 && !e->over; i++) {
        int rc = SSL_do_handshake(e->ssl);
        end_flush(e);
        if (rc == 1)
            return true;
        if (SSL_get_error(e->ssl, rc) != SSL_ERROR_WANT_READ)
            return false;
        pass_time();
        end_fill(e);
    }
    return false;
}

static inline void end_say(struct end *e, const struct peer_msg *m) {
    uint8_t frame[PEER_WIRE_MAX];
    size_t size = peer_wire_encode(m, frame);
    cr_assert_eq(SSL_write(e->ssl, frame, (int)size), (int)size);
    end_flush(e);
}

static inline struct peer_msg end_expect(struct end *e, uint16_t type) {
    struct peer_msg m;
    struct error err;
    size_t size = PEER_WIRE_HEAD;
    for (int i = 0; i < 2000 && e->have < size; i++) {
        pass_time();
        end_fill(e);
        int n = SSL_read(e->ssl, e->said + e->have, (int)(sizeof(e->said) - e->have));
        e->have += n > 0 ? (size_t)n : 0;
        if (e->have >= PEER_WIRE_HEAD)
            size = (size_t)(e->said[0] | e->said[1] << 8);
    }
    cr_assert_geq(e->have, size, "no %s came", peer_wire_name(type));
    cr_assert_eq(peer_wire_decode(e->said, size, &m, &err), 0, "%s", err.text);
    cr_assert_eq(m.type, type, "%s instead of %s: %s", peer_wire_name(m.type), peer_wire_name(type),
                 m.type == PEER_MSG_BYE ? m.bye.text : "");
    memmove(e->said, e->said + size, e->have - size);
    e->have -= size;
    return m;
}

/* Before the time for its hello is over. */
static inline bool end_closed(struct end *e) {
    for (int i = 0; i < 1000 && !e->over; i++) {
        pass_time();
        end_fill(e);
    }
    return e->over;
}

static inline struct end *dial_as(const char *dir) {
    return end_new(raw_dial(), rig_client(dir, PKI_PEER), false);
}

static inline struct end *greet_by(struct end *e) {
    struct peer_msg hello = raw_hello();
    cr_assert(end_shakes(e));
    end_say(e, &hello);
    end_expect(e, PEER_MSG_HELLO);
    return e;
}

static inline struct end *greet(void) {
    return greet_by(dial_as(node));
}

#endif
