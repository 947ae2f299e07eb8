/* SPDX-License-Identifier: MIT */
#include "tests/unit/peer_rig.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct mailbox box; /* what other threads report */
static struct raw *raws[256];
static unsigned nraws;

void peer_rig_up(void) {
    struct error err;
    rig_up();
    nraws = 0;
    strcpy(rig.config.listen, "127.0.0.1:0");
    rig.config.max_peers = 16;
    rig.config.max_peer_attaches = 4096;
    rig.config.peer_ping_ms = 2000;
    rig.config.peer_dead_ms = 10000;
    rig.config.peer_return_ms = 5000;
    rig.config.peer_idle_ms = 60000;
    memset(rig.st.node_id, 1, sizeof(rig.st.node_id));
    rig.st.base = event_base_new();
    rig.st.mailbox = &box;
    cr_assert_eq(mailbox_init(&box), 0);
    cr_assert_eq(peers_new(&rig.st, &rig.st.peers, &err), 0, "%s", err.text);
}

void peer_rig_down(void) {
    struct rig_done stopped = {0};
    peers_stop(rig.st.peers, rig_done, &stopped);
    for (int i = 0; i < 50 && !stopped.calls; i++) {
        fake_answer_all();
        settle();
    }
    cr_expect_eq(stopped.calls, 1, "%u peers are left", peers_count(rig.st.peers));
    while (nraws)
        raw_close(raws[nraws - 1]);
    peers_free(rig.st.peers);
    mailbox_drain(&box);
    mailbox_fini(&box);
    event_base_free(rig.st.base);
    rig_down();
}

void settle(void) {
    for (int i = 0; i < 4; i++) {
        event_base_loop(rig.st.base, EVLOOP_NONBLOCK);
        mailbox_drain(&box);
        timers_run(&rig.st.timers, rig.now_ns);
    }
    usleep(500);
}

void quiet(void) {
    for (int i = 0; i < 5; i++)
        settle();
}

/* ---- the impolite end ------------------------------------------------------------------------ */

static struct raw *raw_new(int fd) {
    struct raw *r = calloc(1, sizeof(*r));
    int on = 1;
    cr_assert_geq(fd, 0, "%s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* sent is received, when settled */
    cr_assert_lt(nraws, 256);
    r->fd = fd;
    raws[nraws++] = r;
    return r;
}

void raw_close(struct raw *r) {
    for (unsigned i = 0; i < nraws; i++)
        if (raws[i] == r)
            raws[i] = raws[--nraws];
    close(r->fd);
    free(r);
}

struct raw *raw_dial(void) {
    return raw_dial_from("127.0.0.1");
}

struct raw *raw_dial_from(const char *ip) {
    struct raw *r = raw_dial_unheard(ip);
    settle();
    return r;
}

struct raw *raw_dial_unheard(const char *ip) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(rig.st.listen_port)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(inet_pton(AF_INET, ip, &from.sin_addr), 1);
    cr_assert_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0, "%s", strerror(errno));
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0, "%s", strerror(errno));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return raw_new(fd);
}

struct raw *raw_listen(uint16_t *port) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(listen(fd, 8), 0);
    getsockname(fd, (struct sockaddr *)&at, &size);
    *port = ntohs(at.sin_port);
    return raw_new(fd);
}

struct raw *raw_accept(struct raw *listener) {
    int fd = -1;
    AWAIT((fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
    return raw_new(fd);
}

void raw_bytes(struct raw *r, const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t n = send(r->fd, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            break; /* the other end has had enough */
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        }
        if (size)
            settle();
    }
    settle();
}

void raw_send(struct raw *r, const struct peer_msg *m) {
    uint8_t frame[PEER_WIRE_MAX];
    raw_bytes(r, frame, peer_wire_encode(m, frame));
}

/* Reads what is there. false: end of file. */
static bool fill(struct raw *r) {
    ssize_t n = recv(r->fd, r->in + r->have, sizeof(r->in) - r->have, 0);
    if (n > 0)
        r->have += (size_t)n;
    return n > 0 || (n < 0 && errno == EAGAIN) || r->have == sizeof(r->in);
}

static size_t frame_size(const struct raw *r) {
    return r->have < PEER_WIRE_HEAD ? PEER_WIRE_HEAD : (size_t)(r->in[0] | r->in[1] << 8);
}

struct peer_msg raw_expect(struct raw *r, uint16_t type) {
    struct peer_msg m;
    struct error err = {0};
    AWAIT((fill(r), r->have >= frame_size(r)));
    size_t size = frame_size(r);
    cr_assert_eq(peer_wire_decode(r->in, size, &m, &err), 0, "%s", err.text);
    memmove(r->in, r->in + size, r->have - size);
    r->have -= size;
    cr_assert_eq(m.type, type, "%s instead of %s: %s", peer_wire_name(m.type), peer_wire_name(type),
                 m.type == PEER_MSG_BYE ? m.bye.text : "");
    return m;
}

bool raw_silent(struct raw *r) {
    quiet();
    return fill(r) && r->have == 0;
}

bool raw_eof(struct raw *r) {
    bool open = true;
    for (int i = 0; i < 2000 && open; i++) {
        r->have = 0;
        settle();
        open = fill(r);
    }
    return !open;
}

struct peer_msg raw_hello(void) {
    struct peer_msg m = {.type = PEER_MSG_HELLO, .hello = {.magic = PEER_WIRE_MAGIC}};
    memset(m.hello.node_id, 2, sizeof(m.hello.node_id));
    strcpy(m.hello.node, "raw");
    strcpy(m.hello.fabrics[0], "fake");
    return m;
}

struct raw *raw_greet(void) {
    return raw_greet_from("127.0.0.1");
}

struct raw *raw_greet_from(const char *ip) {
    struct raw *r = raw_dial_from(ip);
    struct peer_msg hello = raw_hello();
    raw_send(r, &hello);
    raw_expect(r, PEER_MSG_HELLO);
    return r;
}

struct peer_msg raw_attach_req(const struct lease *l, uint64_t ref, uint64_t via) {
    struct rdmad_uri u = rig_uri(l);
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REQ};
    m.attach_req = (struct peer_attach_req){.lessee_ref = ref, .via = via, .lease = u.lease};
    memcpy(m.attach_req.key, u.key, sizeof(u.key));
    strcpy(m.attach_req.name, u.name);
    return m;
}

struct peer_attach_rep raw_attach(struct raw *r, const struct lease *l, uint64_t ref,
                                  uint64_t via) {
    struct peer_msg m = raw_attach_req(l, ref, via);
    unsigned opens = fake_count(FAKE_WINDOW_OPEN);
    raw_send(r, &m);
    if (via) {
        AWAIT(fake_count(FAKE_WINDOW_OPEN) == opens + 1);
        fake_answer(fake_call(FAKE_WINDOW_OPEN, -1), 0);
    }
    m = raw_expect(r, PEER_MSG_ATTACH_REP);
    cr_assert_eq(m.attach_rep.status, 0, "%s", m.attach_rep.text);
    cr_assert_eq(m.attach_rep.lessee_ref, ref);
    return m.attach_rep;
}

struct count {
    const char *state;
    unsigned n;
};

static void count_state(void *arg, const struct peer_view *v) {
    struct count *c = arg;
    c->n += strcmp(v->state, c->state) == 0;
}

unsigned peers_in_state(const char *state) {
    struct count c = {.state = state};
    peers_view(rig.st.peers, count_state, &c);
    return c.n;
}
