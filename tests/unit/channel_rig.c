/* SPDX-License-Identifier: MIT */
#include "tests/unit/channel_rig.h"
#include <criterion/criterion.h>

static void on_closed(void *user, void *cookie, const struct error *why) {
    struct chan_end *end = cookie;
    (void)user;
    end->closed++;
    end->why = *why;
}

void chan_add(struct chan *c, int which) {
    struct chan_end *end = &c->end[which];
    struct rig_answer added = {0};
    c->rig->plane[end->where]->events.channel_closed = on_closed;
    const struct plane_channel_spec spec = {.number = end->number,
                                            .kind = end->kind,
                                            .lane = end->lane,
                                            .peer_in = end->peer_in,
                                            .stats = &end->stats,
                                            .cookie = end};
    plane_channel_add(end->client.session, CHAN_HANDLE, &spec, rig_done, &added);
    cr_assert_eq(rig_await(c->rig, &added), 0, "%s", added.result.text);
}

void chan_open(struct chan *c) {
    bool local = !c->end[A].lane;
    for (int i = 0; i < 2; i++)
        plane_channel_open(c->end[i].client.session, CHAN_HANDLE, c->end[!i].number,
                           local ? c->end[!i].client.session : NULL);
    rig_settle(c->rig);
}

static void open_both(struct chan *c) {
    chan_add(c, A);
    chan_add(c, B);
    chan_open(c);
}

void chan_local_up(struct rig *rig, struct chan *c, size_t pool_bytes) {
    *c = (struct chan){.rig = rig};
    for (int i = 0; i < 2; i++) {
        struct chan_end *end = &c->end[i];
        end->where = HERE;
        end->number = 1000 + rig->sessions; /* of which each has one */
        rig_client_on(rig, HERE, &end->client, 256, 512, pool_bytes);
    }
    open_both(c);
}

void chan_connect(struct chan *c, int which) {
    const struct chan_end *end = &c->end[which], *other = &c->end[!which];
    struct rig_answer hello = {0}, offer = {0}, up = {0};
    plane_lane_hello(end->lane, rig_blob, &hello);
    cr_assert_eq(rig_await(c->rig, &hello), 0);
    plane_offer_on(c->rig->plane[other->where], rig_fabric(c->rig, end->lane),
                   plane_worker_of_session(other->client.session), other->peer_in, false,
                   &hello.blob, rig_blob, &offer);
    cr_assert_eq(rig_await(c->rig, &offer), 0);
    plane_lane_open(end->lane, "there", &offer.blob, rig_done, &up);
    cr_assert_eq(rig_await(c->rig, &up), 0);
}

void chan_break(struct chan *c, int which) {
    const struct chan_end *end = &c->end[which];
    unsigned worker = plane_worker_of_session(end->client.session);
    sim_break_links(
        c->rig->plane[end->where]->worker[worker].links[rig_fabric(c->rig, end->lane)].instance);
    rig_settle(c->rig);
}

static void new_lane(struct chan *c, int which) {
    struct chan_end *end = &c->end[which];
    end->lane = plane_lane_new(c->rig->plane[end->where], c->rig->fabric,
                               plane_worker_of_session(end->client.session), false, end);
    plane_lane_peer(end->lane, which == A ? RIG_OWNER : RIG_PEER, which == A ? "there" : "here");
}

static void drop_lane(struct chan *c, int which) {
    struct rig_answer dropped = {0};
    if (!c->end[which].lane)
        return;
    plane_lane_drop(c->end[which].lane, rig_done, &dropped);
    cr_assert_eq(rig_await(c->rig, &dropped), 0);
    c->end[which].lane = NULL;
}

static void until_synced(struct chan *c) {
    while (chan_of(c, A)->sync.state != SYNC_DONE || chan_of(c, B)->sync.state != SYNC_DONE)
        cr_assert(rig_step(c->rig, sim_now() + NSEC_PER_SEC));
}

void chan_rest(struct chan *c, int which) {
    struct rig_answer rested = {0};
    bool over = channel_over(chan_of(c, which));
    plane_channel_rest(c->end[which].client.session, CHAN_HANDLE, rig_done, &rested);
    cr_assert_eq(rig_await(c->rig, &rested), over ? RDMAD_E_PEER_LOST : 0);
    drop_lane(c, which);
}

void chan_way(struct chan *c, int which) {
    struct chan_end *end = &c->end[which];
    struct rig_answer there = {0};
    end->number += 5000;
    new_lane(c, which);
    plane_channel_way(end->client.session, CHAN_HANDLE, end->number, end->lane, end->peer_in,
                      rig_done, &there);
    cr_assert_eq(rig_await(c->rig, &there), 0, "%s", there.result.text);
}

void chan_return(struct chan *c) {
    chan_way(c, A);
    chan_way(c, B);
    chan_open(c);
    chan_connect(c, A);
    chan_connect(c, B);
    until_synced(c);
}

void chan_weak_up(struct rig *rig, struct chan *c, size_t pool_bytes, uint32_t kind) {
    *c = (struct chan){.rig = rig};
    for (int i = 0; i < 2; i++) {
        struct chan_end *end = &c->end[i];
        end->where = i == A ? HERE : THERE;
        end->number = 1000 + rig->sessions; /* of which each has one */
        end->peer_in = 2000 + rig->sessions;
        end->kind = kind;
        rig_client_on(rig, end->where, &end->client, 256, 512, pool_bytes);
        new_lane(c, i);
    }
    open_both(c);
    chan_connect(c, A);
    chan_connect(c, B);
}

void chan_remote_up(struct rig *rig, struct chan *c, size_t pool_bytes) {
    chan_weak_up(rig, c, pool_bytes, RDMAD_CHANNEL_RELIABLE);
    until_synced(c);
}

void chan_down(struct chan *c) {
    for (int i = 0; i < 2; i++)
        if (c->end[i].client.session)
            rig_client_down(&c->end[i].client);
    for (int i = 0; i < 2; i++)
        drop_lane(c, i);
}

void chan_well(const struct chan *c) {
    cr_assert_eq(c->end[A].closed + c->end[B].closed, 0, "%s%s", c->end[A].why.text,
                 c->end[B].why.text);
}

struct rdmad_sqe chan_sqe(uint8_t opcode, uint64_t at, uint64_t length, uint64_t user_data) {
    return (struct rdmad_sqe){.opcode = opcode,
                              .pool = RIG_HANDLE(0),
                              .pool_offset = at,
                              .length = length,
                              .lease = CHAN_HANDLE,
                              .user_data = user_data};
}

void chan_put(struct chan *c, int end, uint8_t opcode, uint64_t at, uint64_t length,
              uint64_t user_data) {
    struct rdmad_sqe sqe = chan_sqe(opcode, at, length, user_data);
    rig_put(&c->end[end].client, &sqe);
}

void chan_cancel(struct chan *c, int end, uint64_t user_data) {
    struct rdmad_sqe sqe = {.opcode = RDMAD_OP_CANCEL, .lease = user_data, .user_data = UINT64_MAX};
    rig_put(&c->end[end].client, &sqe);
}

bool chan_take(struct chan *c, int end, struct rdmad_cqe *out) {
    return rig_take(&c->end[end].client, out);
}

struct rdmad_cqe chan_wait(struct chan *c, int end) {
    return rig_wait(&c->end[end].client);
}

void chan_end(struct chan *c, int end, int reason, bool linger) {
    struct rig_answer ended = {0};
    plane_channel_end(c->end[end].client.session, CHAN_HANDLE, reason, linger, rig_done, &ended);
    cr_assert_eq(rig_await(c->rig, &ended), 0);
}

struct op_channel *chan_of(struct chan *c, int end) {
    const struct chan_end *e = &c->end[end];
    unsigned worker = plane_worker_of_session(e->client.session);
    return channel_find(&c->rig->plane[e->where]->worker[worker], e->number);
}
