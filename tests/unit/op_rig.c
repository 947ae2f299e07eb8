/* SPDX-License-Identifier: MIT */
#include "tests/unit/op_rig.h"
#include "common/ringword.h"
#include "daemon/base/guard.h"
#include "daemon/op/channel/entry.h"
#include "daemon/op/channel/turn.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_violated(void *user, void *cookie, const struct error *why) {
    struct rig *rig = user;
    rig->violated++;
    rig->cookie = cookie;
    rig->why = *why;
}

static void on_lane_lost(void *user, void *cookie, const struct error *why) {
    struct rig *rig = user;
    rig->lanes_lost++;
    rig->cookie = cookie;
    rig->why = *why;
}

static void on_fault(void *user, const void *address) {
    struct rig *rig = user;
    rig->faults++;
    rig->address = address;
}

void rig_defaults(struct plane_settings *settings) {
    *settings = (struct plane_settings){
        .workers = 1,
        .spin_min_ns = 1000,
        .spin_max_ns = 10000,
        .default_timeout_ns = 10 * NSEC_PER_SEC,
        .max_timeout_ns = 100 * NSEC_PER_SEC,
        .expiry_margin_ns = 100 * NSEC_PER_MSEC,
        .max_session_ops = 64,
        .max_uid_ops = 16384,
        .max_ops = 32768,
        .max_session_waits = 8192,
        .max_uid_waits = 16384,
        .max_waits = 32768,
        .fabrics = {&fabric_sim},
    };
}

static void wrong(void) {
    cr_assert_fail("asked of the first fabric, of which the peer is not");
}

static int wrong_post(struct fabric_link *link, struct fabric_op *op) {
    (void)link, (void)op;
    wrong();
    return 0;
}

static void wrong_cancel(struct fabric_op *op, int status) {
    (void)op, (void)status;
    wrong();
}

static void wrong_abandon(struct fabric_landing *landing) {
    (void)landing;
    wrong();
}

static void wrong_expel(struct fabric *f, uint64_t peer) {
    (void)f, (void)peer;
    wrong();
}

static int wrong_offer(struct fabric *f, uint64_t peer, bool secured,
                       const struct fabric_blob *hello, struct fabric_blob *out,
                       struct error *err) {
    (void)f, (void)peer, (void)secured, (void)hello, (void)out, (void)err;
    wrong();
    return 0;
}

static int wrong_link(struct fabric *f, void *cookie, bool secured, struct fabric_link **out,
                      struct fabric_blob *hello, struct error *err) {
    (void)f, (void)cookie, (void)secured, (void)out, (void)hello, (void)err;
    wrong();
    return 0;
}

static int wrong_window(struct fabric *f, const struct fabric_window_spec *spec,
                        struct fabric_window **out, struct fabric_blob *key, struct error *err) {
    (void)f, (void)spec, (void)out, (void)key, (void)err;
    wrong();
    return 0;
}

static bool wrong_close(struct fabric_window *window, int reason) {
    (void)window, (void)reason;
    wrong();
    return true;
}

static void become_second(struct rig *rig) {
    static struct fabric_ops first;
    if (!getenv("RIG_SECOND") || rig->settings.fabrics[1])
        return;
    first = fabric_sim;
    first.name = "first";
    first.post = wrong_post;
    first.cancel = wrong_cancel;
    first.abandon = wrong_abandon;
    first.expel = wrong_expel;
    first.offer = wrong_offer;
    first.link_new = wrong_link;
    first.window_open = wrong_window;
    first.window_close = wrong_close;
    rig->settings.fabrics[1] = rig->settings.fabrics[0];
    rig->settings.fabrics[0] = &first;
    rig->fabric = 1;
}

static void on_throttled(void *user, struct user_id who, enum plane_rate by) {
    struct rig *rig = user;
    rig->throttled[by]++;
    rig->throttled_uid = who.uid;
}

static void on_failed(void *user, void *cookie) {
    struct rig *rig = user;
    (void)cookie;
    rig->failed++;
}

void rig_up(struct rig *rig, const struct plane_settings *settings, uint64_t seed) {
    *rig = (struct rig){.settings = *settings};
    become_second(rig);
    cr_assert_eq(guard_install(), 0);
    sim_reset(seed);
    cr_assert_eq(mailbox_init(&rig->control), 0);
    struct plane_events events = {.user = rig,
                                  .session_violated = on_violated,
                                  .lane_lost = on_lane_lost,
                                  .memory_fault = on_fault,
                                  .user_throttled = on_throttled,
                                  .session_failed = on_failed};
    for (int i = 0; i < 2; i++) {
        struct error err;
        int rc =
            plane_assemble(&rig->settings, &events, &rig->control, sim_now(), &rig->plane[i], &err);
        cr_assert_eq(rc, 0, "%s", err.text);
    }
    rig_settle(rig);
}

void rig_down(struct rig *rig) {
    rig_settle(rig);
    for (int i = 0; i < 2; i++)
        plane_dismantle(rig->plane[i]);
    cr_assert_eq(sim_inflight(), 0);
    mailbox_fini(&rig->control);
}

/* ---- time -------------------------------------------------------------------------------- */

static unsigned turn(struct rig *rig) {
    unsigned work = 0;
    for (int i = 0; i < 2; i++)
        for (unsigned n = 0; n < rig->settings.workers; n++)
            work += worker_turn(&rig->plane[i]->worker[n], sim_now());
    if (mailbox_pending(&rig->control))
        work += mailbox_drain(&rig->control);
    for (int i = 0; !work && i < 2; i++) /* as before a sleep */
        for (unsigned n = 0; n < rig->settings.workers; n++)
            work += channels_hurry(&rig->plane[i]->worker[n]);
    return work;
}

/* sim has no descriptor to wake a worker by: what a test did to it is found by polling. */
static void wake(struct rig *rig) {
    for (int i = 0; i < 2; i++)
        for (unsigned n = 0; n < rig->settings.workers; n++)
            for (unsigned k = 0; k < rig->plane[i]->worker[n].nlinks; k++)
                rig->plane[i]->worker[n].links[k].parked = false;
}

void rig_settle(struct rig *rig) {
    wake(rig);
    for (unsigned n = 0; turn(rig); n++)
        cr_assert_lt(n, 1000000u, "the workers never come to rest");
}

static uint64_t next_ns(struct rig *rig) {
    uint64_t next = CLOCK_NEVER;
    for (int i = 0; i < 2; i++) {
        for (unsigned n = 0; n < rig->settings.workers; n++) {
            struct worker *w = &rig->plane[i]->worker[n];
            cr_assert(op_fabric_park(&w->local));
            for (unsigned k = 0; k < w->nlinks; k++)
                cr_assert(op_fabric_park(&w->links[k]));
            uint64_t own = worker_next_ns(w);
            if (own < next)
                next = own;
        }
    }
    return next;
}

bool rig_step(struct rig *rig, uint64_t limit_ns) {
    rig_settle(rig);
    uint64_t next = next_ns(rig);
    bool within = next <= limit_ns;
    if (!within)
        next = limit_ns;
    if (next > sim_now())
        sim_advance(next - sim_now());
    rig_settle(rig);
    return within;
}

void rig_run_until(struct rig *rig, uint64_t at_ns) {
    while (rig_step(rig, at_ns) && sim_now() < at_ns)
        ;
}

void rig_done(void *answer, const struct error *result) {
    struct rig_answer *a = answer;
    cr_assert(!a->done, "answered twice");
    a->done = true;
    a->result = *result;
}

void rig_blob(void *answer, const struct error *result, const struct fabric_blob *blob) {
    rig_done(answer, result);
    ((struct rig_answer *)answer)->blob = *blob;
}

int rig_await(struct rig *rig, struct rig_answer *answer) {
    uint64_t limit = sim_now() + 60 * NSEC_PER_SEC;
    rig_settle(rig);
    while (!answer->done && rig_step(rig, limit))
        ;
    cr_assert(answer->done, "no answer");
    return answer->result.code;
}

/* ---- clients ----------------------------------------------------------------------------- */

static void map_ring(struct rig_client *c) {
    c->client = mmap(NULL, c->ring->client_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fds[0], 0);
    void *daemon = mmap(NULL, c->ring->daemon_bytes, PROT_READ, MAP_SHARED, c->fds[1], 0);
    cr_assert(c->client != MAP_FAILED && daemon != MAP_FAILED);
    c->daemon = daemon;
    c->sqe = (void *)((char *)c->client + RDMAD_RING_ENTRIES_OFFSET);
    c->cqe = (const void *)((const char *)daemon + RDMAD_RING_ENTRIES_OFFSET);
}

void rig_client_up(struct rig *rig, struct rig_client *c, uint32_t sq_entries, uint32_t cq_entries,
                   size_t pool_bytes) {
    rig_client_on(rig, HERE, c, sq_entries, cq_entries, pool_bytes);
}

void rig_client_on(struct rig *rig, int where, struct rig_client *c, uint32_t sq_entries,
                   uint32_t cq_entries, size_t pool_bytes) {
    *c = (struct rig_client){.rig = rig, .pool_bytes = pool_bytes};
    struct error err;
    cr_assert_eq(ring_create(sq_entries, cq_entries, &c->ring, c->fds, &err), 0, "%s", err.text);
    map_ring(c);
    c->pool = mmap(NULL, pool_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(c->pool != MAP_FAILED);

    struct rig_answer ring = {0}, pool = {0};
    const struct user_id who = {.uid = rig->uid, .tenant = rig->tenant};
    c->session = plane_session_add(rig->plane[where], RIG_SESSION + rig->sessions++, who, c);
    plane_ring_add(c->session, RIG_HANDLE(0), c->ring, rig_done, &ring);
    plane_pool_add(c->session, RIG_HANDLE(0), c->pool, pool_bytes, NULL, rig_done, &pool);
    cr_assert_eq(rig_await(rig, &ring), 0);
    cr_assert_eq(rig_await(rig, &pool), 0);
}

void rig_ring_up(struct rig_client *c, struct rig_client *second, uint32_t sq_entries,
                 uint32_t cq_entries) {
    struct error err;
    struct rig_answer ring = {0};
    *second = (struct rig_client){.rig = c->rig, .session = c->session};
    cr_assert_eq(ring_create(sq_entries, cq_entries, &second->ring, second->fds, &err), 0);
    map_ring(second);
    plane_ring_add(c->session, RIG_HANDLE(++c->more_rings), second->ring, rig_done, &ring);
    cr_assert_eq(rig_await(c->rig, &ring), 0);
}

void rig_ring_free(struct rig_client *second) {
    munmap(second->client, second->ring->client_bytes);
    munmap((void *)(uintptr_t)second->daemon, second->ring->daemon_bytes);
    for (int i = 0; i < RING_FDS; i++)
        close(second->fds[i]);
    ring_destroy(second->ring);
}

void rig_client_free(struct rig_client *c) {
    munmap(c->pool, c->pool_bytes);
    rig_ring_free(c);
}

void rig_client_down(struct rig_client *c) {
    struct rig_answer dropped = {0};
    plane_session_drop(c->session, rig_done, &dropped);
    cr_assert_eq(rig_await(c->rig, &dropped), 0);
    rig_client_free(c);
}

unsigned rig_fabric(const struct rig *rig, const struct plane_lane *lane) {
    return plane_lane_fabric(lane) != rig->settings.fabrics[0];
}

int rig_connect(struct rig *rig, struct plane_lane *lane) {
    struct rig_answer hello = {0}, offer = {0}, up = {0};
    plane_lane_hello(lane, rig_blob, &hello);
    cr_assert_eq(rig_await(rig, &hello), 0);
    plane_offer(rig->plane[THERE], rig_fabric(rig, lane), RIG_PEER, false, &hello.blob, rig_blob,
                &offer);
    cr_assert_eq(rig_await(rig, &offer), 0);
    plane_lane_open(lane, "there", &offer.blob, rig_done, &up);
    return rig_await(rig, &up);
}

void rig_remote_notifies(struct rig *rig, struct rig_remote *r, void *base, uint64_t length,
                         uint32_t rights, uint64_t deadline_ns,
                         const struct plane_window_notify *notify) {
    *r = (struct rig_remote){.base = base, .length = length, .deadline_ns = deadline_ns};
    r->lane = plane_lane_new(rig->plane[HERE], rig->fabric, 0, false, r);
    plane_lane_peer(r->lane, RIG_OWNER, "there");
    cr_assert_eq(rig_connect(rig, r->lane), 0);
    struct rig_answer window = {0};
    struct fabric_window_spec spec = {.peer = RIG_PEER,
                                      .via = plane_lane_number(r->lane),
                                      .base = base,
                                      .length = length,
                                      .rights = rights,
                                      .deadline_ns = deadline_ns,
                                      .lease_id = RIG_LEASE,
                                      .audit = &r->audit};
    r->window = plane_window_open(rig->plane[THERE], rig->fabric, &spec, notify, rig_blob, &window);
    cr_assert_eq(rig_await(rig, &window), 0);
    r->key = window.blob;
    r->notify_ref = notify ? notify->ref : 0;
}

void rig_remote_up(struct rig *rig, struct rig_remote *r, void *base, uint64_t length,
                   uint32_t rights, uint64_t deadline_ns) {
    rig_remote_notifies(rig, r, base, length, rights, deadline_ns, NULL);
}

void rig_rebuild(struct rig *rig, struct rig_remote *r) {
    struct rig_answer window = {0};
    cr_assert_eq(rig_connect(rig, r->lane), 0);
    plane_window_reopen(r->window, plane_lane_number(r->lane), rig_blob, &window);
    cr_assert_eq(rig_await(rig, &window), 0, "%s", window.result.text);
    r->key = window.blob;
}

void rig_key(struct rig_client *c, const struct rig_remote *r, uint64_t handle) {
    plane_lease_key(c->session, handle, &r->key);
    rig_settle(c->rig);
}

void rig_break(struct rig *rig) {
    for (unsigned n = 0; n < rig->settings.workers; n++)
        sim_break_links(RIG_FABRIC(*rig, &rig->plane[HERE]->worker[n])->instance);
    rig_settle(rig);
}

void rig_remote_down(struct rig *rig, struct rig_remote *r) {
    struct rig_answer lane = {0}, window = {0};
    plane_lane_drop(r->lane, rig_done, &lane);
    cr_assert_eq(rig_await(rig, &lane), 0);
    if (!r->window)
        return;
    plane_window_close(r->window, RDMAD_E_LEASE_REVOKED, rig_done, &window);
    cr_assert_eq(rig_await(rig, &window), 0);
}

static void add_lease(struct rig_client *c, uint64_t handle, const struct plane_lease_spec *spec) {
    struct rig_answer added = {0};
    plane_lease_add(c->session, handle, spec, rig_done, &added);
    cr_assert_eq(rig_await(c->rig, &added), 0, "%s", added.result.text);
}

void rig_lease(struct rig_client *c, const struct rig_remote *r, uint64_t handle, uint64_t lease_id,
               uint32_t rights) {
    add_lease(c, handle,
              &(struct plane_lease_spec){.lease_id = lease_id,
                                         .length = r->length,
                                         .rights = rights,
                                         .deadline_ns = r->deadline_ns,
                                         .lane = r->lane,
                                         .notify_ref = r->notify_ref,
                                         .key = r->key});
}

void rig_lease_local(struct rig_client *c, uint64_t handle, uint64_t lease_id, void *base,
                     uint64_t length, uint32_t rights, uint64_t deadline_ns,
                     struct fabric_audit *audit) {
    add_lease(c, handle,
              &(struct plane_lease_spec){.lease_id = lease_id,
                                         .length = length,
                                         .rights = rights,
                                         .deadline_ns = deadline_ns,
                                         .base = base,
                                         .audit = audit});
}

void rig_lease_of(struct rig_client *c, uint64_t handle, uint64_t lease_id,
                  struct rig_client *owner, void *base, uint64_t length, uint32_t rights,
                  uint64_t deadline_ns, struct fabric_audit *audit) {
    add_lease(c, handle,
              &(struct plane_lease_spec){.lease_id = lease_id,
                                         .length = length,
                                         .rights = rights,
                                         .deadline_ns = deadline_ns,
                                         .base = base,
                                         .audit = audit,
                                         .owner = owner->session,
                                         .notify_lease = lease_id});
}

void rig_grant(struct rig_client *owner, uint64_t lease_id) {
    struct rig_answer added = {0};
    plane_grant_add(owner->session, lease_id, rig_done, &added);
    cr_assert_eq(rig_await(owner->rig, &added), 0, "%s", added.result.text);
}

void rig_put(struct rig_client *c, const struct rdmad_sqe *sqe) {
    c->sqe[c->sq_tail & (c->ring->sq_entries - 1)] = *sqe;
    if (ringword_publish_and_ask(&c->client->sq_tail, ++c->sq_tail, &c->daemon->sq_wait))
        eventfd_write(c->fds[3], 1);
}

bool rig_take(struct rig_client *c, struct rdmad_cqe *out) {
    if (ringword_peek(&c->daemon->cq_tail) == c->cq_head)
        return false;
    *out = c->cqe[c->cq_head & (c->ring->cq_entries - 1)];
    ringword_publish(&c->client->cq_head, ++c->cq_head);
    return true;
}

struct rdmad_cqe rig_wait(struct rig_client *c) {
    struct rdmad_cqe cqe;
    uint64_t limit = sim_now() + 60 * NSEC_PER_SEC;
    rig_settle(c->rig);
    while (!rig_take(c, &cqe))
        cr_assert(rig_step(c->rig, limit), "no completion within a minute");
    return cqe;
}

struct rdmad_cqe rig_do(struct rig_client *c, const struct rdmad_sqe *sqe) {
    rig_put(c, sqe);
    return rig_wait(c);
}
