/* SPDX-License-Identifier: MIT */
/*
 * The kernel looks up a peer's address when a QP is given its path, and waits for it: a second, in
 * which nobody else is served. So it is asked before, and whoever needs the way waits alone.
 */
#include "daemon/fabric/verbs/instance/neighbour.h"
#include "daemon/fabric/verbs/target/targets.h"
#include "tests/unit/verbs_rig.h"
#include <dlfcn.h>
#include <endian.h>
#include <string.h>

#define BYTES ((size_t)16 << 10)

struct scene {
    struct side owner;
    struct raw raw;
    struct resources before, raw_before;
};

static void scene_open(struct scene *s) {
    *s = (struct scene){.before = resources_of("rxe0"), .raw_before = resources_of("rxe1")};
    side_defaults(&s->owner, "rxe0");
    side_open(&s->owner);
    raw_open(&s->raw, "rxe1", BYTES);
}

static void scene_close(struct scene *s) {
    raw_close(&s->raw);
    side_close(&s->owner);
    expect_resources("rxe0", &s->before);
    expect_resources("rxe1", &s->raw_before);
}

static unsigned accepted(const struct scene *s) {
    return fabric_verbs.accepted(s->owner.fabric);
}

static bool astray; /* paths are said to lead to 10.77.0.99, which nobody has */
static bool as_v1;  /* GIDs are said to be of RoCE v1, which rxe does not have */

/* Instead of libibverbs' own. */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init) {
    int (*real)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *) =
        (int (*)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *))dlsym(
            RTLD_NEXT, "ibv_query_qp");
    int rc = real(qp, attr, mask, init);
    if (rc == 0 && astray && (mask & IBV_QP_AV))
        attr->ah_attr.grh.dgid.raw[15] = 99;
    return rc;
}

int _ibv_query_gid_ex(struct ibv_context *context, /* NOLINT: its name */
                      uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags,
                      size_t size) {
    int (*real)(struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *, uint32_t,
                size_t) = (int (*)(struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *,
                                   uint32_t, size_t))dlsym(RTLD_NEXT, "_ibv_query_gid_ex");
    int rc = real(context, port, index, entry, flags, size);
    if (rc == 0 && as_v1)
        entry->gid_type = IBV_GID_TYPE_ROCE_V1;
    return rc;
}

static int offer(struct scene *s, const struct verbs_hello *hello, struct error *err) {
    struct fabric_blob blob, answer;
    blob_write_hello(hello, &blob);
    return fabric_verbs.offer(s->owner.fabric, PEER, false, &blob, &answer, err);
}

static void of_roce_v1_an_address_that_nobody_has_holds_nobody_up(void) {
    struct scene s;
    struct verbs_hello hello;
    struct error err = {0};
    scene_open(&s);
    raw_hello(&s.raw, 1, &hello);
    hello.end.gid[15] = 98;
    as_v1 = true;
    uint64_t start_ns = clock_now_ns();
    CHECK(offer(&s, &hello, &err) == RDMAD_E_UNREACHABLE, "%s", err.text);
    CHECK(clock_now_ns() - start_ns < NSEC_PER_SEC, "it waits for the neighbour");
    as_v1 = false;
    scene_close(&s);
}

/* The MAC address is in it; of others the kernel asks. */
static void of_roce_v1_a_link_local_address_is_known(void) {
    static const uint8_t link_local[16] = {0xfe, 0x80, [15] = 0x77};
    static const uint8_t beside_it[16] = {0xfe, 0x80, [7] = 1, [15] = 0x77};
    struct scene s;
    union ibv_gid ours;
    scene_open(&s);
    struct verbs v = *verbs_of(s.owner.fabric);
    for (v.port.gid_index = 0;; v.port.gid_index++) {
        CHECK(ibv_query_gid(v.device->context, 1, v.port.gid_index, &ours) == 0, "no such GID");
        if (memcmp(ours.raw, link_local, 8) == 0)
            break;
    }
    CHECK(!neighbour_known(&v, link_local), "RoCE v2");
    as_v1 = true;
    CHECK(neighbour_known(&v, link_local), "RoCE v1");
    CHECK(shell("ip -6 route add fe80:0:0:1::/64 dev va") == 0, "route");
    CHECK(!neighbour_known(&v, beside_it), "the kernel looks for it");
    CHECK(shell("ip -6 route del fe80:0:0:1::/64 dev va") == 0, "route");
    as_v1 = false;
    scene_close(&s);
}

static void request_receiver(struct raw *r) {
    raw_request_weak(r, WEAK_UNACKED, 100, sizeof(struct weak_request));
}

static const struct weak_place *place(const struct scene *s) {
    const struct verbs_target *t =
        target_by_number(vpeer_find(verbs_of(s->owner.fabric), PEER), s->raw.number);
    return &((const struct inbox_page *)(const void *)t->inbox.memory)->place[WEAK_UNACKED];
}

static void turn_for(struct scene *s, uint64_t ns) {
    for (uint64_t until_ns = clock_now_ns() + ns; clock_now_ns() < until_ns;) {
        uint64_t start_ns = clock_now_ns();
        side_turn(&s->owner);
        CHECK(clock_now_ns() - start_ns < NSEC_PER_SEC, "it waits for the neighbour");
    }
}

/* Its address was known when it connected, and is not when it requests a receiver. */
static void a_peer_whose_address_nobody_has_any_more_holds_nobody_up(void) {
    struct scene s;
    scene_open(&s);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    astray = true;
    request_receiver(&s.raw);
    turn_for(&s, NSEC_PER_SEC);
    CHECK(place(&s)->qp_num == 0, "its receiver is at 0x%x", le32toh(place(&s)->qp_num));
    CHECK(shell("ip neigh show 10.77.0.99 | grep -q .") == 0, "nobody looks for it");
    CHECK(shell("ip neigh replace 10.77.0.99 lladdr 02:00:00:00:00:99 dev va") == 0, "neigh");
    SIDE_UNTIL(&s.owner, le32toh(place(&s)->qp_num) > WEAK_REFUSED);
    CHECK(shell("ip neigh del 10.77.0.99 dev va") == 0, "neigh");
    astray = false;
    fabric_verbs.expel(s.owner.fabric, PEER);
    scene_close(&s);
}

/* With all that it has of the device. */
static void a_receiver_that_waits_goes_with_its_link(void) {
    struct scene s;
    scene_open(&s);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    unsigned qps = resources_of("rxe0").qp;
    astray = true;
    for (unsigned i = 0; i < 2; i++) {
        request_receiver(&s.raw);
        SIDE_UNTIL(&s.owner, !list_empty(&verbs_of(s.owner.fabric)->targets.opening));
        if (i == 0) { /* broken, or forgotten */
            request_receiver(&s.raw);
            SIDE_UNTIL(&s.owner, accepted(&s) == 0);
        } else {
            fabric_verbs.forget(s.owner.fabric, PEER, s.raw.number);
        }
        turn_for(&s, 300 * NSEC_PER_MSEC);
        CHECK(list_empty(&verbs_of(s.owner.fabric)->targets.opening), "it waits on");
        if (i == 0)
            raw_connect(&s.raw, &s.owner, PEER, 1);
    }
    astray = false;
    for (unsigned i = 0; i < 50 && resources_of("rxe0").qp != qps - 1; i++)
        turn_for(&s, 20 * NSEC_PER_MSEC);
    CHECK(resources_of("rxe0").qp == qps - 1, "%u QPs of %u", resources_of("rxe0").qp, qps - 1);
    fabric_verbs.expel(s.owner.fabric, PEER);
    scene_close(&s);
}

TEST_MAIN(CASE(of_roce_v1_an_address_that_nobody_has_holds_nobody_up),
          CASE(of_roce_v1_a_link_local_address_is_known),
          CASE(a_peer_whose_address_nobody_has_any_more_holds_nobody_up),
          CASE(a_receiver_that_waits_goes_with_its_link))
