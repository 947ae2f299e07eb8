/* SPDX-License-Identifier: MIT */
/*
 * Control connections by TLS: who is let in, whom we dial, what strangers may cost, and what
 * another identity changes.
 */
#include "daemon/peer/connect/judge.h"
#include "daemon/peer/connect/room.h"
#include "daemon/peer/control/transport.h"
#include "tests/unit/tls_end.h"

TestSuite(peer_tls, .init = tls_up, .fini = tls_down, .timeout = 120);

static struct peer_view seen;

static void see(void *arg, const struct peer_view *v) {
    (void)arg;
    seen = *v;
}

/* ---- who is let in ------------------------------------------------------------------------- */

Test(peer_tls, who_has_a_certificate_is_let_in_by_its_name) {
    struct end *e = greet();
    struct peer_msg ping = {.type = PEER_MSG_PING, .ping.seq = 7};
    end_say(e, &ping);
    cr_assert_eq(end_expect(e, PEER_MSG_PONG).ping.seq, 7);
    peers_view(rig.st.peers, see, NULL);
    cr_assert_str_eq(seen.node, "raw");
    cr_assert_eq(strlen(seen.fingerprint), 64);
    end_free(e);
}

Test(peer_tls, a_name_that_is_not_the_certificates_is_refused_in_words) {
    struct end *e = dial_as(node);
    struct peer_msg hello = raw_hello();
    cr_assert(end_shakes(e));
    strcpy(hello.hello.node, "here");
    end_say(e, &hello);
    struct peer_msg bye = end_expect(e, PEER_MSG_BYE);
    cr_assert_eq(bye.bye.code, RDMAD_E_PERM);
    cr_assert(strstr(bye.bye.text, "calls itself here") && strstr(bye.bye.text, "that of raw"),
              "%s", bye.bye.text);
    cr_assert(end_closed(e));
    end_free(e);
}

Test(peer_tls, who_speaks_in_clear_is_told_so_in_clear) {
    struct raw *r = raw_dial();
    struct peer_msg hello = raw_hello();
    raw_send(r, &hello);
    struct peer_msg bye = raw_expect(r, PEER_MSG_BYE);
    cr_assert(strstr(bye.bye.text, "talks TLS only"), "%s", bye.bye.text);
    cr_assert(raw_eof(r));
    cr_assert_eq(peers_in_state("up"), 0);
}

Test(peer_tls, who_shows_no_certificate_or_a_strangers_is_not_let_in) {
    char other[RIG_PATH], theirs[RIG_PATH];
    struct pki_error err;
    rig_init(other, "there");
    rig_node(theirs, other, (struct pki_terms){.name = "raw"});
    X509 *we = rig_leaf(ca);
    X509_free(we);
    rig_copy(ca, "ca.crt", theirs, "trust/here.crt"); /* it trusts us */
    struct end *e = dial_as(theirs);
    (void)end_shakes(e); /* it is told behind its own end of the handshake */
    cr_assert(end_closed(e));
    end_free(e);

    struct pki_identity *id = rig_load(node);
    SSL_CTX *ctx;
    cr_assert_eq(pki_client_context(id, PKI_PEER, &ctx, &err), 0);
    pki_identity_free(id);
    e = end_new(raw_dial(), ctx, false);
    SSL_certs_clear(e->ssl);
    (void)end_shakes(e);
    cr_assert(end_closed(e));
    end_free(e);
    cr_assert_eq(peers_in_state("up"), 0);
}

/* ---- whom we dial -------------------------------------------------------------------------- */

struct added {
    bool done;
    struct error result;
};

static void added(void *arg, const struct error *result) {
    struct added *a = arg;
    a->done = true;
    a->result = *result;
}

/* receives: the bytes that this end may have unread; 0: what the kernel likes. They are set before
 * there is a connection: a window that shrinks makes the kernel drop what is beyond it, with what
 * it acknowledges, and both ends wait for seconds then. */
static struct end *be_dialled_by(int receives, const char *host, const char *dir, struct added *a) {
    uint16_t port;
    struct raw *listener = raw_listen(&port);
    if (receives)
        setsockopt(listener->fd, SOL_SOCKET, SO_RCVBUF, &receives, sizeof(receives));
    *a = (struct added){0};
    peer_add(rig.st.peers, host, port, added, a);
    struct end *e = end_new(raw_accept(listener), rig_server(dir), true);
    raw_close(listener);
    return e;
}

static struct end *be_dialled(const char *host, const char *dir, struct added *a) {
    return be_dialled_by(0, host, dir, a);
}

Test(peer_tls, whom_we_dial_must_have_the_name_or_address_that_was_dialled) {
    struct added a;
    struct end *e = be_dialled("127.0.0.1", node, &a); /* says no address */
    struct peer_msg hello = raw_hello();
    cr_assert(end_shakes(e));
    end_expect(e, PEER_MSG_HELLO);
    end_say(e, &hello);
    AWAIT(a.done);
    cr_assert_eq(a.result.code, 0, "%s", a.result.text);
    end_free(e);

    e = be_dialled("localhost", node, &a);
    cr_assert(end_shakes(e));
    end_expect(e, PEER_MSG_HELLO);
    end_free(e);

    e = be_dialled("127.1", node, &a); /* as good as a name, that needs no resolver */
    cr_assert(end_shakes(e));
    struct peer_msg bye = end_expect(e, PEER_MSG_BYE);
    cr_assert(strstr(bye.bye.text, "127.1 was dialled and raw has answered"), "%s", bye.bye.text);
    AWAIT(a.done);
    cr_assert_eq(a.result.code, RDMAD_E_PERM);
    end_free(e);
}

/* Our own HELLO has told it to whoever answers. */
Test(peer_tls, who_echoes_our_node_id_is_not_taken_for_us) {
    struct added a;
    struct end *e = be_dialled("127.0.0.1", node, &a);
    cr_assert(end_shakes(e));
    struct peer_msg hello = raw_hello(), ours = end_expect(e, PEER_MSG_HELLO);
    memcpy(hello.hello.node_id, ours.hello.node_id, sizeof(hello.hello.node_id));
    end_say(e, &hello);
    AWAIT(a.done);
    cr_assert_eq(a.result.code, 0, "%s", a.result.text);
    peers_view(rig.st.peers, see, NULL);
    cr_assert_str_eq(seen.node, "raw");
    end_free(e);
}

/* ---- what it may cost ---------------------------------------------------------------------- */

static unsigned waiting(const struct raw *r) {
    int bytes = 0;
    ioctl(r->fd, FIONREAD, &bytes);
    return (unsigned)bytes;
}

static unsigned peers_secured(void) {
    unsigned n = 0;
    list_for_each (at, &rig.st.peers->all)
        n += list_entry(at, struct peer, node)->secured;
    return n;
}

Test(peer_tls, one_handshake_is_computed_and_then_none_for_a_while) {
    enum { MANY = 12 };
    struct end *e[MANY];
    for (int i = 0; i < MANY; i++) {
        e[i] = dial_as(node);
        SSL_do_handshake(e[i]->ssl);
        end_flush(e[i]);
    }
    unsigned answered = 0;
    for (int i = 0; i < 400; i++) {
        settle(); /* the clock stands still, so the rest after the first never ends */
        answered = 0;
        for (int k = 0; k < MANY; k++)
            answered += waiting(e[k]->raw) > 0;
    }
    cr_assert_eq(answered, 1, "%u", answered);
    for (int i = 0; i < 4000 && answered < MANY; i++) {
        pass_time();
        answered = 0;
        for (int k = 0; k < MANY; k++)
            answered += waiting(e[k]->raw) > 0;
    }
    cr_assert_eq(answered, MANY, "%u", answered);
    for (int i = 0; i < MANY; i++)
        end_free(e[i]);
}

/* Sends its first words. */
static struct end *begin(const char *dir) {
    struct end *e = dial_as(dir);
    SSL_do_handshake(e->ssl);
    end_flush(e);
    return e;
}

/* Begins, and is answered. */
static struct end *begin_answered(void) {
    struct end *e = begin(node);
    for (int i = 0; i < 2000 && !waiting(e->raw); i++)
        pass_time();
    end_fill(e);
    return e;
}

static bool is_up(struct end *e) {
    struct peer_msg hello = raw_hello();
    end_say(e, &hello);
    return end_expect(e, PEER_MSG_HELLO).type == PEER_MSG_HELLO;
}

Test(peer_tls, who_only_begins_handshakes_does_not_hold_up_one_that_is_under_way) {
    enum { MANY = 12 };
    struct end *honest = begin_answered(), *e[MANY];
    unsigned answered = 0, passes = 0;
    for (int i = 0; i < MANY; i++)
        e[i] = begin(node);
    cr_assert_eq(SSL_do_handshake(honest->ssl), 1);
    end_flush(honest);
    while (peers_secured() == 0 && passes++ < 4000)
        pass_time();
    for (int k = 0; k < MANY; k++)
        answered += waiting(e[k]->raw) > 0;
    cr_assert_leq(answered, 2, "%u that came later were before it", answered);
    cr_assert(is_up(honest));
    for (int i = 0; i < MANY; i++)
        end_free(e[i]);
    end_free(honest);
}

Test(peer_tls, who_only_begins_handshakes_does_not_have_one_dropped_that_is_under_way) {
    enum { MANY = 2 * PEER_UNGREETED_MAX };
    struct end *honest = begin_answered(), *e[MANY];
    cr_assert_eq(SSL_do_handshake(honest->ssl), 1);
    end_flush(honest);
    settle(); /* heard, and the clock stands still */
    for (int i = 0; i < MANY; i++)
        e[i] = begin(node);
    for (int i = 0; i < 200; i++)
        pass_time();
    end_fill(honest);
    cr_assert(!honest->over, "it was dropped for others from its address");
    cr_assert(is_up(honest));
    for (int i = 0; i < MANY; i++)
        end_free(e[i]);
    end_free(honest);
}

/* Records may be padded: what waits of a good handshake may be more than one may have. */
Test(peer_tls, a_handshake_of_many_bytes_is_read_to_its_end) {
    struct end *e = dial_as(node);
    SSL_set_block_padding(e->ssl, 16384);
    X509 *more = rig_leaf(node);
    for (int i = 0; i < 55; i++)
        cr_assert_eq(SSL_add1_chain_cert(e->ssl, more), 1);
    X509_free(more);
    for (int i = 0; i < 2000 && SSL_do_handshake(e->ssl) != 1; i++) {
        end_flush_all(e);
        pass_time();
        end_fill(e);
    }
    cr_assert_gt(BIO_pending(e->out), 65536);
    end_flush_all(e); /* the clock stands still, so all of it comes before the next step */
    settle();
    SSL_set_block_padding(e->ssl, 0);
    cr_assert(is_up(e));
    end_free(e);
}

Test(peer_tls, whoever_stops_in_the_middle_is_dropped_when_its_time_is_over) {
    struct end *e = dial_as(node);
    SSL_do_handshake(e->ssl);
    end_flush(e);
    AWAIT(waiting(e->raw));
    rig_advance(4 * NSEC_PER_SEC);
    quiet();
    end_fill(e);
    cr_assert(end_closed(e));
    end_free(e);
}

Test(peer_tls, a_peer_may_go_while_its_handshake_is_computed) {
    for (int i = 0; i < 30; i++) {
        struct end *e = dial_as(node);
        SSL_do_handshake(e->ssl);
        uint8_t bytes[32768];
        int n = BIO_read(e->out, bytes, sizeof(bytes));
        cr_assert_eq(send(e->raw->fd, bytes, (size_t)n, MSG_NOSIGNAL), (ssize_t)n);
        event_base_loop(rig.st.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        end_free(e);
        rig_advance((uint64_t)i * MS);
    }
    AWAIT(peers_count(rig.st.peers) == 0);
}

Test(peer_tls, bytes_that_are_no_records_end_it_before_and_after_the_handshake) {
    static const uint8_t no_type[] = "\x63\x03\x03\x00\x10";
    static const uint8_t too_long[] = "\x17\x03\x03\xff\xff";
    struct raw *r = raw_dial();
    raw_bytes(r, "\x16\x03\x01\xff\xff", 5);
    cr_assert(raw_eof(r));
    for (int i = 0; i < 2; i++) {
        struct end *e = greet();
        raw_bytes(e->raw, i ? too_long : no_type, 5);
        cr_assert(end_closed(e));
        end_free(e);
    }
}

static void say_keys(struct end *e, unsigned n, int kind) {
    while (n--) {
        cr_assert_eq(SSL_key_update(e->ssl, kind), 1);
        cr_assert_eq(SSL_do_handshake(e->ssl), 1);
    }
    end_flush(e);
}

Test(peer_tls, records_with_nothing_in_them_are_few) {
    struct peer_msg ping = {.type = PEER_MSG_PING};
    struct end *e = greet();
    say_keys(e, 32, SSL_KEY_UPDATE_NOT_REQUESTED);
    end_say(e, &ping); /* so many are allowed, and the keys are right after them */
    end_expect(e, PEER_MSG_PONG);
    say_keys(e, 33, SSL_KEY_UPDATE_NOT_REQUESTED);
    cr_assert(end_closed(e));
    end_free(e);
}

/* Each is answered by TLS itself, unseen by whoever counts messages. */
Test(peer_tls, who_asks_for_new_keys_and_does_not_read_the_answers_is_dropped) {
    struct peer_msg pong = {.type = PEER_MSG_PONG}; /* brings bytes, and nobody answers it */
    struct added a;
    struct end *e = be_dialled_by(4096, "127.0.0.1", node, &a);
    struct peer_msg hello = raw_hello();
    int little = 4096;
    cr_assert(end_shakes(e));
    end_expect(e, PEER_MSG_HELLO);
    end_say(e, &hello);
    AWAIT(a.done);
    struct peer *p = list_entry(rig.st.peers->all.next, struct peer, node);
    p->output_max = 1024; /* as much waits when the kernel's buffers are full */
    setsockopt(transport_socket(p->way), SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
    for (unsigned i = 0; i < 2000 && peers_in_state("up"); i++) {
        say_keys(e, 32, SSL_KEY_UPDATE_REQUESTED);
        end_say(e, &pong);
        pass_time();
    }
    cr_assert_eq(peers_in_state("up"), 0, "the answers wait for it without bound");
    end_free(e);
}

Test(peer_tls, a_turn_opens_no_more_records_than_it_hears_messages) {
    struct peer_msg req = raw_attach_req(lease, 5, 0);
    uint8_t frame[PEER_WIRE_MAX], bytes[32768];
    unsigned size = (unsigned)peer_wire_encode(&req, frame);
    struct end *e = greet();
    for (unsigned i = 0; i < size; i++) /* a record for each byte */
        cr_assert_eq(SSL_write(e->ssl, frame + i, 1), 1);
    int n = BIO_read(e->out, bytes, sizeof(bytes));
    cr_assert_eq(send(e->raw->fd, bytes, (size_t)n, MSG_NOSIGNAL), (ssize_t)n);
    unsigned turns = 0;
    while (!waiting(e->raw) && turns < 1000) {
        event_base_loop(rig.st.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        turns++;
    }
    cr_assert_geq(turns, size / 16, "a message of %u records took %u turns", size, turns);
    cr_assert_eq(end_expect(e, PEER_MSG_ATTACH_REP).attach_rep.status, 0);
    end_free(e);
}

/* ---- another identity ---------------------------------------------------------------------- */

Test(peer_tls, a_reload_ends_who_was_revoked_and_nobody_else) {
    char second[RIG_PATH];
    struct error err;
    rig_node(second, ca, (struct pki_terms){.name = "second"});
    struct end *e = greet();
    struct end *other = dial_as(second);
    struct peer_msg hello = raw_hello(), ping = {.type = PEER_MSG_PING};
    strcpy(hello.hello.node, "second");
    memset(hello.hello.node_id, 3, sizeof(hello.hello.node_id));
    cr_assert(end_shakes(other));
    end_say(other, &hello);
    end_expect(other, PEER_MSG_HELLO);

    rig_revoke(ca, "raw");
    cr_assert_eq(identity_reload(&rig.st, false, &err), 0, "%s", err.text);
    struct peer_msg bye = end_expect(e, PEER_MSG_BYE);
    cr_assert(strstr(bye.bye.text, "revoked"), "%s", bye.bye.text);
    end_say(other, &ping);
    end_expect(other, PEER_MSG_PONG);
    end_free(e);
    end_free(other);
}

Test(peer_tls, a_turn_judges_some_of_all_peers_anew) {
    enum { MANY = 3 * JUDGED_A_TURN };
    struct end *e[MANY];
    struct error err;
    char ip[16];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(ip, sizeof(ip), "127.0.0.%u", 2 + i);
        e[i] = greet_by(end_new(raw_dial_from(ip), rig_client(node, PKI_PEER), false));
    }
    rig_revoke(ca, "raw");
    cr_assert_eq(identity_reload(&rig.st, false, &err), 0, "%s", err.text);
    for (unsigned passes = 0, up = MANY, left; up && passes < 1000; passes++, up = left) {
        event_base_loop(rig.st.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        left = peers_in_state("up");
        cr_assert_leq(up - left, 2 * JUDGED_A_TURN, "%u were judged at once", up - left);
    }
    cr_assert_eq(peers_in_state("up"), 0);
    for (unsigned i = 0; i < MANY; i++)
        end_free(e[i]);
}

Test(peer_tls, a_handshake_that_began_before_a_reload_is_judged_by_what_is_trusted_after_it) {
    struct error err;
    struct end *e = dial_as(node);
    SSL_do_handshake(e->ssl);
    end_flush(e);
    AWAIT(waiting(e->raw));
    rig_revoke(ca, "raw");
    cr_assert_eq(identity_reload(&rig.st, false, &err), 0, "%s", err.text);
    end_fill(e);
    (void)end_shakes(e);
    cr_assert(end_closed(e));
    cr_assert_eq(peers_in_state("up"), 0);
    end_free(e);
}

Test(peer_tls, peers_in_clear_end_when_an_identity_comes) {
    struct error err;
    identity_stop(&rig.st);
    struct raw *r = raw_greet();
    cr_assert_eq(peers_in_state("up"), 1);
    cr_assert_eq(identity_start(&rig.st, ca, judge_anew, &err), 0);
    peers_judge_anew(rig.st.peers);
    struct peer_msg bye = raw_expect(r, PEER_MSG_BYE);
    cr_assert(strstr(bye.bye.text, "in clear"), "%s", bye.bye.text);
}
