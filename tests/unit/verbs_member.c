/* SPDX-License-Identifier: MIT */
/*
 * verbs_member.c - the member makes a CQ and a QP on every device it gets, and destroys them before
 * it lets go, as an instance of the fabric does.
 */
#include "tests/unit/verbs_member.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct fabric_settings settings;
struct fabric_host *host;
struct member member;

static void take_up(struct member *t, struct device *d, const struct port_now *port) {
    t->device = d;
    t->port = *port;
    t->cq = ibv_create_cq(d->context, 16, NULL, NULL, 0);
    CHECK(t->cq, "no CQ");
    struct ibv_qp_init_attr init = {
        .send_cq = t->cq,
        .recv_cq = t->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    t->qp = ibv_create_qp(d->pd, &init);
    CHECK(t->qp, "no QP");
}

void put_down(struct member *t) {
    CHECK(ibv_destroy_qp(t->qp) == 0 && ibv_destroy_cq(t->cq) == 0, "what we have does not go");
    t->device = NULL;
    t->cq = NULL;
    t->qp = NULL;
    host_let_go(&t->m);
}

#define member_of(m) container_of(m, struct member, m)

static void device_came(struct host_member *m, struct device *d, const struct port_now *port) {
    struct member *t = member_of(m);
    CHECK(!t->device, "a device comes while we have one");
    CHECK(port->usable, "it comes with a port that cannot be used");
    t->came++;
    take_up(t, d, port);
}

static void port_changed(struct host_member *m, const struct port_now *port) {
    member_of(m)->changed++;
    member_of(m)->port = *port;
}

static void qp_event(struct host_member *m, uint32_t qp_num, enum ibv_event_type event) {
    struct member *t = member_of(m);
    t->qp_events++;
    t->event_qp = qp_num;
    t->event = event;
}

static void device_going(struct host_member *m, const struct error *why) {
    struct member *t = member_of(m);
    CHECK(t->device, "a device goes that we do not have");
    t->going++;
    t->why = *why;
    if (!t->lazy)
        put_down(t);
}

void join(struct member *t) {
    struct error err;
    struct device *d;
    struct port_now port;
    memset(t, 0, sizeof(*t));
    CHECK(mailbox_init(&t->m.mailbox) == 0, "no mailbox");
    t->m.device_came = device_came;
    t->m.port_changed = port_changed;
    t->m.qp_event = qp_event;
    t->m.device_going = device_going;
    CHECK(host_join(host, &t->m, &d, &port, &err) == 0, "%s", err.text);
    if (d)
        take_up(t, d, &port);
}

void leave(struct member *t) {
    if (t->device)
        put_down(t);
    host_leave(&t->m);
    mailbox_fini(&t->m.mailbox);
}

void sh(const char *format, ...) {
    char command[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(command, sizeof(command), format, ap);
    va_end(ap);
    int status = system(command);
    CHECK(status == 0, "\"%s\" fails: %d", command, status);
}

/* A count that `rdma resource show` has of the device. */
unsigned long resource(const char *what) {
    char line[512] = "", word[16];
    FILE *f = popen("rdma resource show " DEVICE, "re");
    CHECK(f && fgets(line, sizeof(line), f), "no rdma resource show");
    pclose(f);
    snprintf(word, sizeof(word), " %s ", what);
    const char *at = strstr(line, word);
    CHECK(at, "no \"%s\" in \"%s\"", what, line);
    return strtoul(at + strlen(word), NULL, 10);
}

struct verbs_settings usual(void) {
    return (struct verbs_settings){.device = DEVICE,
                                   .lanes = 1,
                                   .queue_depth = 256,
                                   .inline_bytes = 64,
                                   .max_message = MIB,
                                   .signal_every = 16,
                                   .hop_limit = 64,
                                   .timeout = 14,
                                   .retry_count = 6,
                                   .rnr_retry = 6,
                                   .min_rnr_timer = 12,
                                   .rd_atomic = 16,
                                   .dest_rd_atomic = 16};
}

void start(void) {
    struct error err;
    CHECK(host_open(&settings, &host, &err) == 0, "%s", err.text);
    join(&member);
    CHECK(member.device, "no device");
}

void open_usual(void) {
    log_init(LOG_NOTICE, 1);
    snprintf(settings.listen_host, sizeof(settings.listen_host), "127.0.0.1");
    settings.verbs = usual();
    start();
}

void finish(void) {
    leave(&member);
    host_close(host);
}

struct fabric_memory *add(void *base, uint64_t bytes) {
    struct fabric_memory *m;
    struct error err;
    CHECK(memory_add(host, base, bytes, &m, &err) == 0, "%s", err.text);
    return m;
}

void *map(uint64_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED, "no memory");
    return p;
}
