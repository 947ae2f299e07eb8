/* SPDX-License-Identifier: MIT */
/*
 * The daemon of the cluster's CA and those that join there; and a daemon that asks for its next
 * certificate, the CA being played by the test.
 */
#include "daemon/base/audit.h"
#include "daemon/peer/connect/join.h"
#include "daemon/peer/connect/renewal.h"
#include "pki/join_client.h"
#include "pki/join_server.h"
#include "pki/own.h"
#include "tests/unit/tls_end.h"
#include <poll.h>
#include <unistd.h>

/* ---- what becomes of requests -------------------------------------------------------------- */

/* What the audit log would say of those that join. */
static unsigned granted, refused;
static char audited[RDMAD_TEXT_MAX + 1]; /* the last one */

void __wrap_audit_write(enum audit_event event, const char *cause, struct audit_who who,
                        struct audit_object object, const char *text);
void __wrap_audit_write(enum audit_event event, const char *cause, struct audit_who who,
                        struct audit_object object, const char *text) {
    (void)event, (void)who, (void)object;
    if (strncmp(cause, "join.", 5) != 0)
        return;
    granted += strcmp(cause, "join.granted") == 0;
    refused += strcmp(cause, "join.refused") == 0;
    snprintf(audited, sizeof(audited), "%s", text);
}

static unsigned whole;  /* requests that were heard */
static bool holds_back; /* the thread, which has one of them */

int __real_join_server_take(struct join_server *s, const void *bytes, size_t size,
                            struct pki_error *err);
int __wrap_join_server_take(struct join_server *s, const void *bytes, size_t size,
                            struct pki_error *err);
int __wrap_join_server_take(struct join_server *s, const void *bytes, size_t size,
                            struct pki_error *err) {
    int rc = __real_join_server_take(s, bytes, size, err);
    whole += rc == 0;
    return rc;
}

int __real_join_server_answer(const struct join_server *s, const char *dir, const X509 *shown,
                              int64_t now, struct join_bytes *reply, struct join_outcome *outcome);
int __wrap_join_server_answer(const struct join_server *s, const char *dir, const X509 *shown,
                              int64_t now, struct join_bytes *reply, struct join_outcome *outcome);
int __wrap_join_server_answer(const struct join_server *s, const char *dir, const X509 *shown,
                              int64_t now, struct join_bytes *reply, struct join_outcome *outcome) {
    while (__atomic_load_n(&holds_back, __ATOMIC_ACQUIRE))
        usleep(1000);
    return __real_join_server_answer(s, dir, shown, now, reply, outcome);
}

static void hold_back(bool holds) {
    __atomic_store_n(&holds_back, holds, __ATOMIC_RELEASE);
}

/* A case that failed may have left it to wait. */
static void down(void) {
    hold_back(false);
    tls_down();
}

TestSuite(peer_join, .init = tls_up, .fini = down, .timeout = 120);

/* ---- a node that joins --------------------------------------------------------------------- */

static struct pki_token fresh_token(void) {
    struct pki_token_terms terms = {.expires = rig_now() + 3600, .days = 30};
    struct pki_token token;
    struct pki_error err;
    struct pki_ca authority;
    cr_assert_eq(pki_ca_open(ca, &authority, &err), 0, "%s", err.text);
    cr_assert_eq(pki_token_make(&authority.dir, authority.cert, rig_now(), &terms, &token, &err), 0,
                 "%s", err.text);
    pki_ca_close(&authority);
    return token;
}

static struct end *knock_from(const char *ip, const struct pki_token *token) {
    struct pki_error err;
    SSL_CTX *ctx;
    cr_assert_eq(pki_stranger_context(token->fingerprint, &ctx, &err), 0, "%s", err.text);
    struct end *e = end_new(raw_dial_from(ip), ctx, false);
    cr_assert(end_shakes(e));
    return e;
}

/* Asks, and is answered; the code, or RDMAD_E_CLOSED if nothing came. */
static int answered(struct end *e, struct join_client *client, struct join_bytes *request,
                    const char *address, struct pki_error *err) {
    struct join_inbox inbox;
    uint8_t bytes[4096];
    int rc = JOIN_MORE;
    join_inbox_init(&inbox, JOIN_REPLY_MAX);
    SSL_write(e->ssl, request->data, (int)request->size);
    end_flush(e);
    for (int i = 0; i < 2000 && rc == JOIN_MORE && !e->over; i++) {
        pass_time();
        end_fill(e);
        int n = SSL_read(e->ssl, bytes, sizeof(bytes));
        if (n > 0)
            rc = join_inbox_take(&inbox, bytes, (size_t)n, err);
    }
    rc = rc ? RDMAD_E_CLOSED : join_client_finish(client, inbox.data, inbox.used, address, err);
    join_inbox_fini(&inbox);
    join_bytes_free(request);
    join_client_fini(client);
    return rc;
}

static int ask(struct end *e, const char *dir, const char *name, const struct pki_token *token,
               struct pki_error *err) {
    struct join_bytes request;
    struct join_client client;
    int rc = join_client_begin(dir, name, token, false, &client, &request, err);
    cr_assert_eq(rc, 0, "%s", err->text);
    return answered(e, &client, &request, "127.0.0.1:1", err);
}

static int join_as(const char *name, const struct pki_token *token, struct pki_error *err) {
    char dir[RIG_PATH];
    struct end *e = knock_from("127.0.0.1", token);
    int rc = ask(e, rig_path(dir, name), name, token, err);
    cr_assert(end_closed(e)); /* one request a connection */
    end_free(e);
    return rc;
}

Test(peer_join, a_token_lets_one_node_join_once) {
    struct pki_token token = fresh_token();
    struct pki_error err;
    char dir[RIG_PATH];
    cr_assert_eq(join_as("first", &token, &err), 0, "%s", err.text);
    cr_assert_eq(join_as("second", &token, &err), RDMAD_E_PERM);
    cr_assert(strstr(err.text, "was used"), "%s", err.text);

    struct end *e = dial_as(rig_path(dir, "first")); /* it is a peer now */
    struct peer_msg hello = raw_hello();
    strcpy(hello.hello.node, "first");
    cr_assert(end_shakes(e));
    end_say(e, &hello);
    end_expect(e, PEER_MSG_HELLO);
    cr_assert_eq(peers_in_state("up"), 1, "nobody else is a peer");
    end_free(e);
}

Test(peer_join, who_guesses_is_soon_not_heard_for_a_while) {
    struct pki_token token = fresh_token(), wrong = token;
    struct pki_error err;
    for (unsigned i = 0; i < JOIN_REFUSALS; i++) {
        wrong.secret[0]++;
        cr_assert_eq(join_as("guesser", &wrong, &err), RDMAD_E_PERM);
    }
    cr_assert_eq(join_as("honest", &token, &err), RDMAD_E_CLOSED);
    rig_advance(JOIN_WINDOW_NS + NSEC_PER_SEC);
    cr_assert_eq(join_as("honest", &token, &err), 0, "%s", err.text);
}

Test(peer_join, one_address_has_half_of_strangers_places_and_time_is_short) {
    enum { HALF = JOIN_PLACES / 4 };
    struct pki_token token = fresh_token();
    struct pki_error err;
    struct end *e[HALF];
    char dir[RIG_PATH];
    for (int i = 0; i < HALF; i++)
        e[i] = knock_from("127.0.0.1", &token);
    for (int i = 0; i < 200; i++)
        pass_time();
    struct end *more = knock_from("127.0.0.1", &token);
    cr_assert(end_closed(more));
    end_free(more);
    struct end *other = knock_from("127.0.0.2", &token);
    cr_assert_eq(ask(other, rig_path(dir, "other"), "other", &token, &err), 0, "%s", err.text);
    end_free(other);
    rig_advance(JOIN_PATIENCE_NS + NSEC_PER_SEC);
    for (int i = 0; i < HALF; i++) {
        cr_assert(end_closed(e[i]));
        end_free(e[i]);
    }
}

/* By its certificate; asks for the list. */
static int ask_for_list(struct pki_error *err) {
    struct end *e = end_new(raw_dial(), rig_client(node, PKI_JOIN), false);
    struct pki_identity *id = rig_load(node);
    struct join_bytes request;
    struct join_client client;
    cr_assert(end_shakes(e));
    cr_assert_eq(join_client_begin_renewal(id, true, &client, &request, err), 0, "%s", err->text);
    int rc = answered(e, &client, &request, NULL, err);
    pki_identity_free(id);
    end_free(e);
    return rc;
}

/* Another user of that machine can only be told by what he does not have. */
Test(peer_join, strangers_at_a_nodes_address_do_not_keep_it_from_the_list) {
    struct pki_token token = fresh_token(), wrong = token;
    struct end *e[JOIN_PLACES];
    struct pki_error err;
    char ip[16];
    for (unsigned i = 0; i < JOIN_REFUSALS; i++) {
        wrong.secret[0]++;
        cr_assert_eq(join_as("guesser", &wrong, &err), RDMAD_E_PERM);
    }
    cr_assert_eq(join_as("guesser", &wrong, &err), RDMAD_E_CLOSED, "guesses are still heard");
    cr_assert_eq(ask_for_list(&err), 0, "refused for a stranger's guesses: %s", err.text);
    for (unsigned i = 0; i < JOIN_PLACES; i++) {
        snprintf(ip, sizeof(ip), "127.0.0.%u", 2 + i);
        e[i] = knock_from(ip, &token);
    }
    cr_assert_eq(ask_for_list(&err), 0, "strangers have all places: %s", err.text);
    for (unsigned i = 0; i < JOIN_PLACES; i++)
        end_free(e[i]);
}

Test(peer_join, what_the_ca_cannot_do_now_is_not_held_against_who_asks) {
    struct pki_error err;
    rig_copy(ca, "revoked.crl", ca, "kept");
    rig_write(ca, "revoked.crl", "nothing\n", 0644);
    for (unsigned i = 0; i < 2 * JOIN_REFUSALS; i++)
        cr_assert_neq(ask_for_list(&err), 0);
    rig_copy(ca, "kept", ca, "revoked.crl");
    cr_assert_eq(ask_for_list(&err), 0, "%s", err.text);
}

Test(peer_join, what_is_no_request_ends_it) {
    struct pki_token token = fresh_token();
    static const uint8_t huge[] = {0x00, 0x01, 0x00, 0x00, 'R', 'D', 'J', 'N'};
    struct end *e = knock_from("127.0.0.1", &token);
    SSL_write(e->ssl, huge, sizeof(huge));
    end_flush(e);
    cr_assert(end_closed(e));
    end_free(e);
    e = knock_from("127.0.0.1", &token);
    for (int i = 0; i < 65; i++) /* of a request of 255 bytes */
        SSL_write(e->ssl, i == 3 ? "\xff" : "\0", 1);
    end_flush(e);
    cr_assert(end_closed(e));
    end_free(e);
}

/* ---- whose connection ends before its answer is made --------------------------------------- */

/* Asks to be x, and does not wait for the answer. */
static struct end *ask_alone(const struct pki_token *token) {
    struct join_bytes request;
    struct join_client client;
    struct pki_error err;
    char dir[RIG_PATH];
    struct end *e = knock_from("127.0.0.1", token);
    cr_assert_eq(join_client_begin(rig_path(dir, "x"), "x", token, false, &client, &request, &err),
                 0);
    SSL_write(e->ssl, request.data, (int)request.size);
    end_flush(e);
    join_bytes_free(&request);
    join_client_fini(&client);
    return e;
}

Test(peer_join, the_daemon_may_end_while_it_signs) {
    struct pki_token token = fresh_token();
    end_free(ask_alone(&token));
}

/* The thread waits with what was asked. */
static struct end *ask_in_vain(const struct pki_token *token) {
    unsigned before = whole;
    hold_back(true);
    struct end *e = ask_alone(token);
    for (int i = 0; i < 2000 && whole == before; i++)
        pass_time();
    cr_assert_eq(whole, before + 1);
    return e;
}

Test(peer_join, what_was_signed_is_audited_though_its_time_was_over) {
    struct pki_token token = fresh_token();
    struct end *e = ask_in_vain(&token);
    rig_advance(JOIN_PATIENCE_NS);
    cr_assert(end_closed(e));
    cr_assert_eq(granted, 0);
    hold_back(false);
    AWAIT(granted == 1);
    cr_assert(strstr(audited, "node x at 127.0.0.1") && strstr(audited, "before it was sent"), "%s",
              audited);
    end_free(e);
}

Test(peer_join, what_was_signed_is_audited_though_the_daemon_ends) {
    struct pki_token token = fresh_token();
    struct end *e = ask_in_vain(&token);
    joins_free(rig.st.peers);
    hold_back(false);
    AWAIT(granted == 1);
    end_free(e);
}

/* As many as one address has places, and for all of them it takes too long. */
static void guess_in_vain(const struct pki_token *token) {
    struct pki_token wrong = *token;
    struct end *e[JOIN_PLACES / 4];
    wrong.secret[0]++;
    for (unsigned i = 0; i < JOIN_PLACES / 4; i++)
        e[i] = ask_in_vain(&wrong);
    rig_advance(JOIN_PATIENCE_NS);
    for (unsigned i = 0; i < JOIN_PLACES / 4; i++) {
        cr_assert(end_closed(e[i]));
        end_free(e[i]);
    }
}

Test(peer_join, whose_time_was_over_has_its_place_until_the_answer_is_made) {
    struct pki_token token = fresh_token();
    struct pki_error err;
    guess_in_vain(&token);
    struct end *more = knock_from("127.0.0.1", &token);
    cr_assert(end_closed(more), "there are more answers to be made than places");
    end_free(more);
    hold_back(false);
    AWAIT(refused == JOIN_PLACES / 4);
    cr_assert_eq(join_as("honest", &token, &err), 0, "%s", err.text);
}

Test(peer_join, guesses_whose_time_was_over_count) {
    struct pki_token token = fresh_token();
    struct pki_error err;
    while (refused < JOIN_REFUSALS) {
        unsigned before = refused;
        guess_in_vain(&token);
        hold_back(false);
        AWAIT(refused == before + JOIN_PLACES / 4);
    }
    cr_assert_eq(join_as("honest", &token, &err), RDMAD_E_CLOSED);
}

/* ---- a node that renews -------------------------------------------------------------------- */

static void become(const char *dir) {
    struct error err;
    identity_stop(&rig.st);
    cr_assert_eq(identity_start(&rig.st, dir, judge_anew, &err), 0, "%s", err.text);
    peers_judge_anew(rig.st.peers);
}

/* A node of which ten days of ninety are left, and the CA is where the test listens. */
static struct raw *old_node(char dir[RIG_PATH]) {
    uint16_t port;
    char where[32];
    struct raw *listener = raw_listen(&port);
    rig_node(dir, ca,
             (struct pki_terms){.name = "old",
                                .not_before = rig_now() - 80 * 86400,
                                .not_after = rig_now() + 10 * 86400});
    snprintf(where, sizeof(where), "127.0.0.1:%u", port);
    rig_write(dir, "ca.address", where, 0644);
    become(dir);
    return listener;
}

static struct raw *renewal_comes(struct raw *listener) {
    struct pollfd p = {.fd = listener->fd, .events = POLLIN};
    for (int i = 0; i < 4000 && poll(&p, 1, 0) == 0; i++)
        pass_time();
    return raw_accept(listener);
}

/* Not before that time has passed. */
static struct raw *renewal_comes_after(struct raw *listener, uint64_t span_ns) {
    struct pollfd p = {.fd = listener->fd, .events = POLLIN};
    quiet();
    rig_advance(span_ns / 2);
    quiet();
    cr_assert_eq(poll(&p, 1, 0), 0, "it asks again too soon");
    rig_advance(span_ns / 2);
    return renewal_comes(listener);
}

/* The CA's end, answered from its directory. */
static void answer_as_ca(struct end *e) {
    struct join_server server;
    struct join_outcome outcome;
    struct join_bytes reply;
    struct pki_error err;
    uint8_t bytes[4096];
    int rc = JOIN_MORE;
    cr_assert(end_shakes(e));
    join_server_init(&server);
    for (int i = 0; i < 2000 && rc == JOIN_MORE; i++) {
        pass_time();
        end_fill(e);
        int n = SSL_read(e->ssl, bytes, sizeof(bytes));
        if (n > 0)
            rc = join_server_take(&server, bytes, (size_t)n, &err);
    }
    cr_assert_eq(rc, 0);
    X509 *shown = SSL_get1_peer_certificate(e->ssl);
    cr_assert_eq(join_server_answer(&server, ca, shown, rig_now(), &reply, &outcome), 0);
    cr_assert_eq(outcome.code, 0, "%s", outcome.text);
    SSL_write(e->ssl, reply.data, (int)reply.size);
    end_flush(e);
    join_bytes_free(&reply);
    join_server_fini(&server);
    X509_free(shown);
}

Test(peer_join, the_next_certificate_is_asked_for_in_time_and_used) {
    char dir[RIG_PATH];
    struct raw *listener = old_node(dir);
    int64_t until = identity_of(&rig.st)->not_after;
    struct end *e = end_new(renewal_comes(listener), rig_server(ca), true);
    answer_as_ca(e);
    AWAIT(identity_of(&rig.st)->not_after > until + 70 * 86400);
    end_free(e);
    e = end_new(renewal_comes_after(listener, RENEWAL_LIST_NS), rig_server(ca), true);
    answer_as_ca(e); /* the list alone: nothing is signed again */
    end_free(e);
    raw_close(listener);
}

Test(peer_join, only_the_ca_is_believed_and_it_is_asked_again) {
    char dir[RIG_PATH];
    struct raw *listener = old_node(dir);
    struct end *e = end_new(renewal_comes(listener), rig_server(node), true);
    (void)end_shakes(e); /* a node like any other: it does not speak the protocol */
    cr_assert(end_closed(e));
    end_free(e);
    e = end_new(renewal_comes_after(listener, RENEWAL_AGAIN_NS), rig_server(ca), true);
    answer_as_ca(e);
    AWAIT(identity_of(&rig.st)->not_after > rig_now() + 60 * 86400);
    end_free(e);
    raw_close(listener);
}

Test(peer_join, the_daemon_may_end_while_it_asks) {
    char dir[RIG_PATH];
    struct raw *listener = old_node(dir);
    struct raw *r = renewal_comes(listener); /* it never answers */
    raw_close(r);
    raw_close(listener);
}

Test(peer_join, where_the_ca_is_it_signs_its_own) {
    struct pki_terms terms = {.name = "here",
                              .not_before = rig_now() - 80 * 86400,
                              .not_after = rig_now() + 10 * 86400,
                              .serves_joins = true};
    struct pki_error err;
    struct pki_ca authority;
    EVP_PKEY *key;
    X509 *cert;
    cr_assert_eq(pki_ca_open(ca, &authority, &err), 0, "%s", err.text);
    cr_assert_eq(pki_own_key(&authority.dir, &key, &err), 0);
    cr_assert_eq(pki_cert_sign(&terms, key, authority.cert, authority.key, &cert, &err), 0);
    cr_assert_eq(pki_own_write_cert(&authority.dir, PKI_NODE_CERT, cert, authority.cert, &err), 0);
    X509_free(cert);
    EVP_PKEY_free(key);
    pki_ca_close(&authority);
    become(ca);
    cr_assert_lt(identity_of(&rig.st)->not_after, rig_now() + 11 * 86400);
    for (int i = 0; i < 4000 && identity_of(&rig.st)->not_after < rig_now() + 60 * 86400; i++)
        pass_time();
    cr_assert_gt(identity_of(&rig.st)->not_after, rig_now() + 60 * 86400);
}
