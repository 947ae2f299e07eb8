/* SPDX-License-Identifier: MIT */
/*
 * test_strangers.c - what anybody may do who reaches the daemon's port, and what it costs others.
 */
#include "tests/integration/false_peer.h"
#include "tests/support/bystander.h"
#include "tests/support/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TALKERS = 250, FRAMES = 4096, ATTACK_MS = 1500 };

/* Daemon a owns, daemon b's client has a lease that it keeps. */
struct scene {
    struct tdaemon *a, *b;
    rdmad_session *owner, *lessee;
    rdmad_lease *lease, *kept;
    char *near;
};

static void scene_up(struct scene *c) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_pool *pool;
    c->a = tdaemon_start("127.0.0.1", NULL);
    c->b = tdaemon_start("127.0.0.2", NULL);
    c->owner = client_open(c->a);
    c->lessee = client_open(c->b);
    CHECK(!rdmad_pool_create(c->owner, 1 << 20, 0, &pool), "%s", rdmad_last_error(c->owner));
    terms.ttl_ms = 2000;
    terms.flags = RDMAD_LEASE_RENEWABLE;
    CHECK(!rdmad_lease_grant(c->owner, rdmad_pool_base(pool), 4096, &terms, &c->lease), "%s",
          rdmad_last_error(c->owner));
    CHECK(!rdmad_pool_create(c->lessee, 1 << 20, 0, &pool), "%s", rdmad_last_error(c->lessee));
    c->near = rdmad_pool_base(pool);
    CHECK(!rdmad_lease_attach(c->lessee, rdmad_lease_uri(c->lease), 0, &c->kept), "%s",
          rdmad_last_error(c->lessee));
    CHECK(!rdmad_lease_keep(c->kept, 1), "%s", rdmad_last_error(c->lessee));
}

static void scene_down(struct scene *c) {
    CHECK(!rdmad_write(c->kept, 0, c->near, 64), "the kept lease: %s", rdmad_last_error(c->lessee));
    rdmad_close(c->lessee);
    rdmad_close(c->owner);
    tdaemon_stop(c->b);
    tdaemon_stop(c->a);
}

struct attack {
    const char *listen;
    uint16_t type;
};

/* Each says hello and then the same message without end, as fast as it is heard, and reads nothing.
 */
static void talk(void *arg) {
    const struct attack *attack = arg;
    static uint8_t frames[FRAMES * 192];
    static struct false_peer p[TALKERS];
    static size_t at[TALKERS];
    struct pollfd on[TALKERS];
    struct peer_msg m = {.type = attack->type};
    size_t size = 0;
    if (m.type == PEER_MSG_LINK_GONE)
        m.link_gone.via = 7;
    for (unsigned i = 0; i < FRAMES; i++)
        size += peer_wire_encode(&m, frames + size);
    unsigned n = 0;
    while (n < TALKERS && false_peer_try(&p[n], attack->listen, test_fabric()))
        n++;
    for (;;) {
        for (unsigned i = 0; i < n; i++)
            on[i] = (struct pollfd){.fd = p[i].fd, .events = POLLOUT};
        poll(on, n, 10);
        for (unsigned i = 0; i < n; i++) {
            ssize_t sent = send(p[i].fd, frames + at[i], size - at[i], MSG_DONTWAIT | MSG_NOSIGNAL);
            at[i] = sent > 0 ? (at[i] + (size_t)sent) % size : at[i];
            if (sent < 0 && errno != EAGAIN) { /* it was thrown out, and comes again */
                close(p[i].fd);
                at[i] = 0;
                if (!false_peer_try(&p[i], attack->listen, test_fabric()))
                    p[i].fd = -1;
            }
        }
    }
}

static void judge(uint16_t type, const char *what) {
    struct scene c;
    scene_up(&c);
    struct attack attack = {.listen = tdaemon_listen(c.a), .type = type};
    struct bystander *b = bystander_start(c.a);
    pid_t pid = client_fork(talk, &attack);
    sleep_ms(ATTACK_MS);
    client_kill(pid);
    sleep_ms(ATTACK_MS / 2); /* what they left must not matter either */
    bystander_stop(b, what);
    scene_down(&c);
}

static void strangers_who_end_links_without_pause_keep_nobody_waiting(void) {
    judge(PEER_MSG_LINK_GONE, "250 strangers end links");
}

static void strangers_who_ask_for_a_sign_of_life_without_pause_keep_nobody_waiting(void) {
    judge(PEER_MSG_PING, "250 strangers ping");
}

static void strangers_who_ask_for_names_without_pause_keep_nobody_waiting(void) {
    judge(PEER_MSG_NAMES_REQ, "250 strangers ask for names");
}

/* Each has a lease of ours, by a name that is for everybody. */
static void attach_all(void *arg) {
    const char *listen = arg;
    static struct false_peer p[TALKERS + 50];
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REQ};
    strcpy(m.attach_req.name, "for-everybody");
    for (unsigned i = 0; i < TALKERS + 50; i++)
        if (false_peer_try(&p[i], listen, test_fabric()))
            false_peer_say(&p[i], &m);
    for (;;)
        pause();
}

static unsigned peers_of(struct tdaemon *d) {
    json_t *objects = tdaemon_objects(d);
    unsigned n = (unsigned)json_integer_value(json_object_get(objects, "peers"));
    json_decref(objects);
    return n;
}

static void await_peers(struct tdaemon *d, unsigned at_least) {
    for (uint64_t since = now_ms(); peers_of(d) < at_least; sleep_ms(5))
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "only %u peers", peers_of(d));
}

static void attach_from(struct tdaemon *d, const char *uri, const char *who) {
    rdmad_session *s = client_open(d);
    rdmad_lease *lease;
    CHECK(!rdmad_lease_attach(s, uri, (int)TEST_PATIENCE_MS, &lease), "%s: %s", who,
          rdmad_last_error(s));
    rdmad_close(s);
}

static void one_who_attaches_everywhere_keeps_no_other_daemon_out(void) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    struct scene c;
    rdmad_lease *published, *back;
    rdmad_pool *pool;
    char listen[64];
    scene_up(&c);
    struct tdaemon *third = tdaemon_start("127.0.0.4", NULL);
    CHECK(!rdmad_pool_create(c.owner, 4096, 0, &pool), "%s", rdmad_last_error(c.owner));
    terms.name = "for-everybody";
    CHECK(!rdmad_lease_grant(c.owner, rdmad_pool_base(pool), 4096, &terms, &published), "%s",
          rdmad_last_error(c.owner));
    CHECK(!rdmad_lease_grant(c.lessee, c.near, 4096, NULL, &back), "%s",
          rdmad_last_error(c.lessee));
    snprintf(listen, sizeof(listen), "%s", tdaemon_listen(c.a));
    pid_t pid = client_fork(attach_all, listen);
    await_peers(c.a, 64);
    sleep_ms(200);
    printf("  300 connections of one address, each with a lease: %u peers\n", peers_of(c.a));
    attach_from(third, rdmad_lease_uri(published), "another daemon does not get in");
    attach_from(c.a, rdmad_lease_uri(back), "the daemon's own client cannot dial out");
    client_kill(pid);
    tdaemon_stop(third);
    scene_down(&c);
}

TEST_MAIN(CASE(one_who_attaches_everywhere_keeps_no_other_daemon_out),
          CASE(strangers_who_end_links_without_pause_keep_nobody_waiting),
          CASE(strangers_who_ask_for_a_sign_of_life_without_pause_keep_nobody_waiting),
          CASE(strangers_who_ask_for_names_without_pause_keep_nobody_waiting))
