/* SPDX-License-Identifier: MIT */
/*
 * What a window lets through, to the byte; that nothing gets through once it is closed; that
 * nothing is left of it. The other end is bare verbs, which obey nobody but the device.
 */
#include "tests/unit/verbs_rig.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define BYTES ((size_t)64 << 10)
#define EDGE 100u /* the range begins and ends off any page's edge */
#define READ IBV_WR_RDMA_READ
#define WRITE IBV_WR_RDMA_WRITE

struct scene {
    struct side owner;
    struct raw raw;
    uint8_t *memory;
    struct range range; /* most of memory, all rights */
    struct resources before, raw_before;
};

static void scene_open(struct scene *s) {
    *s = (struct scene){.before = resources_of("rxe0"), .raw_before = resources_of("rxe1")};
    side_defaults(&s->owner, "rxe0");
    side_open(&s->owner);
    raw_open(&s->raw, "rxe1", BYTES);
    s->memory = map_pages(BYTES);
    s->range = (struct range){
        .base = s->memory + EDGE, .length = BYTES - 2 * EDGE - 7, .rights = RDMAD_RIGHTS_ALL};
}

static void scene_close(struct scene *s) {
    raw_close(&s->raw);
    side_close(&s->owner);
    expect_resources("rxe0", &s->before);
    expect_resources("rxe1", &s->raw_before);
}

static void expect_refused(struct scene *s, enum ibv_wr_opcode opcode, const struct wnd *w,
                           int64_t offset, uint32_t length) {
    raw_connect(&s->raw, &s->owner, PEER, 1);
    enum ibv_wc_status status = raw_access(&s->raw, 0, opcode, &w->key, offset, length);
    CHECK(status == IBV_WC_REM_ACCESS_ERR, "%u bytes at %ld: %s", length, (long)offset,
          ibv_wc_status_str(status));
}

static void expect_done(struct scene *s, enum ibv_wr_opcode opcode, const struct wnd *w,
                        int64_t offset, uint32_t length) {
    enum ibv_wc_status status = raw_access(&s->raw, 0, opcode, &w->key, offset, length);
    CHECK(status == IBV_WC_SUCCESS, "%u bytes at %ld: %s", length, (long)offset,
          ibv_wc_status_str(status));
}

static void bounds_hold_to_the_byte_at_both_ends(void) {
    struct scene s;
    struct wnd w;
    uint8_t before[BYTES];
    scene_open(&s);
    wnd_open(&s.owner, &w, PEER, &s.range);
    uint32_t all = (uint32_t)s.range.length;

    memset(s.raw.buffer, 0xab, BYTES);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    expect_done(&s, WRITE, &w, 0, all);
    expect_done(&s, READ, &w, 0, all);
    expect_done(&s, WRITE, &w, all - 1, 1);
    for (size_t i = 0; i < BYTES; i++)
        CHECK(s.memory[i] == (i >= EDGE && i < EDGE + all ? 0xab : 0), "byte %zu", i);

    memcpy(before, s.memory, BYTES);
    memset(s.raw.buffer, 0xcd, BYTES);
    static const enum ibv_wr_opcode both[] = {READ, WRITE};
    for (unsigned i = 0; i < 2; i++) {
        expect_refused(&s, both[i], &w, -1, 1);
        expect_refused(&s, both[i], &w, -1, 2);
        expect_refused(&s, both[i], &w, all, 1);
        expect_refused(&s, both[i], &w, all - 1, 2);
        expect_refused(&s, both[i], &w, 0, all + 1);
        expect_refused(&s, both[i], &w, -1, all + 1);
        expect_refused(&s, both[i], &w, (int64_t)1 << 40, 8);
        expect_refused(&s, both[i], &w, -((int64_t)1 << 40), 8);
    }
    CHECK(memcmp(before, s.memory, BYTES) == 0, "a refused access changed something");
    wnd_close(&s.owner, &w);
    scene_close(&s);
}

static void rights_hold(void) {
    struct scene s;
    struct wnd reads, writes;
    scene_open(&s);
    s.range.rights = RDMAD_RIGHT_READ;
    wnd_open(&s.owner, &reads, PEER, &s.range);
    s.range.rights = RDMAD_RIGHT_WRITE;
    wnd_open(&s.owner, &writes, PEER, &s.range);
    CHECK(reads.key.rkey[0] != writes.key.rkey[0], "one key for different rights");
    raw_connect(&s.raw, &s.owner, PEER, 1);
    memset(s.raw.buffer, 1, BYTES);
    expect_done(&s, READ, &reads, 0, 512);
    expect_done(&s, WRITE, &writes, 0, 512);
    memset(s.raw.buffer, 2, BYTES);
    expect_refused(&s, WRITE, &reads, 0, 512);
    expect_refused(&s, READ, &writes, 0, 512);
    CHECK(s.memory[EDGE] == 0, "the read that came first read what was written later");
    wnd_close(&s.owner, &reads);
    wnd_close(&s.owner, &writes);
    scene_close(&s);
}

static void a_key_tells_no_address_of_ours(void) {
    struct scene s;
    struct wnd w;
    scene_open(&s);
    wnd_open(&s.owner, &w, PEER, &s.range);
    CHECK(w.key.address == ((uintptr_t)s.range.base & 4095), "%lx", (long)w.key.address);
    wnd_close(&s.owner, &w);

    struct error err = {0};
    int rc = fabric_verbs.memory_add(s.owner.host, s.memory, BYTES, &s.range.memory, &err);
    CHECK(rc == 0, "%s", err.text);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    for (unsigned offset = 0; offset < 10000; offset += 4999) {
        struct range r = s.range;
        r.base = s.memory + offset;
        r.length = BYTES - offset;
        wnd_open(&s.owner, &w, PEER, &r);
        CHECK(w.key.address == offset, "%lx", (long)w.key.address);
        s.raw.buffer[0] = (uint8_t)(offset + 1);
        expect_done(&s, WRITE, &w, 0, 1);
        CHECK(s.memory[offset] == (uint8_t)(offset + 1), "not where it was to be");
        wnd_close(&s.owner, &w);
    }
    fabric_verbs.memory_remove(s.range.memory);
    scene_close(&s);
}

static void another_peers_key_is_worth_nothing(void) {
    struct scene s;
    struct wnd w;
    struct raw thief;
    scene_open(&s);
    wnd_open(&s.owner, &w, PEER, &s.range);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    raw_open(&thief, "rxe1", BYTES);
    memset(thief.buffer, 0xee, BYTES);
    for (unsigned i = 0; i < test_count(1000); i++) {
        raw_connect(&thief, &s.owner, OTHER_PEER, 1);
        enum ibv_wc_status status = raw_access(&thief, 0, i % 2 ? READ : WRITE, &w.key, i, 64);
        CHECK(status == IBV_WC_REM_ACCESS_ERR, "try %u: %s", i, ibv_wc_status_str(status));
    }
    for (size_t i = 0; i < BYTES; i++)
        CHECK(s.memory[i] == 0, "byte %zu was written", i);
    expect_done(&s, WRITE, &w, 0, 64); /* and its owner's link never noticed */
    CHECK(fabric_verbs.accepted(s.owner.fabric) <= 2, "broken targets pile up");
    raw_close(&thief);
    wnd_close(&s.owner, &w);
    scene_close(&s);
}

/* ---- writes that stream while the window closes ------------------------------------------- */

struct stream {
    struct raw *raw;
    const struct verbs_key *key;
    uint64_t length;
    bool stop;
    unsigned done, refused;
};

#define CHUNK 4096u
#define STREAM_DEPTH 16

/* Writes as fast as the device takes it, until it refuses. */
static void *stream_writes(void *arg) {
    struct stream *t = arg;
    struct ibv_wc wc[STREAM_DEPTH];
    unsigned under_way = 0;
    uint64_t at = 0;
    while (!__atomic_load_n(&t->stop, __ATOMIC_SEQ_CST) || under_way > 0) {
        while (under_way < STREAM_DEPTH && !__atomic_load_n(&t->stop, __ATOMIC_SEQ_CST) &&
               t->refused == 0) {
            memset(t->raw->buffer, (int)(at + t->done) | 1, CHUNK);
            if (!raw_post(t->raw, 0, WRITE, t->key, (int64_t)at, CHUNK))
                break;
            at = (at + CHUNK) % (t->length - CHUNK);
            under_way++;
        }
        int n = ibv_poll_cq(t->raw->cq, STREAM_DEPTH, wc);
        for (int i = 0; i < n; i++) {
            unsigned *count = wc[i].status == IBV_WC_SUCCESS ? &t->done : &t->refused;
            __atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
        }
        under_way -= n > 0 ? (unsigned)n : 0;
    }
    return NULL;
}

static unsigned loaded(const unsigned *n) {
    return __atomic_load_n(n, __ATOMIC_SEQ_CST);
}

static void no_byte_lands_after_a_close_under_full_rate_writes(void) {
    struct scene s;
    uint8_t *after = map_pages(BYTES);
    unsigned cut = 0;
    scene_open(&s);
    for (unsigned round = 0; round < test_count(1000); round++) {
        struct wnd w;
        pthread_t thread;
        wnd_open(&s.owner, &w, PEER, &s.range);
        raw_connect(&s.raw, &s.owner, PEER, 1);
        struct stream t = {.raw = &s.raw, .key = &w.key, .length = s.range.length};
        CHECK(pthread_create(&thread, NULL, stream_writes, &t) == 0, "no thread");
        while (loaded(&t.done) < 8 + round % 16)
            CHECK(loaded(&t.refused) == 0, "refused while the window is open");
        wnd_close(&s.owner, &w);
        memcpy(after, s.memory, BYTES);
        for (uint64_t until = clock_now_ns() + NSEC_PER_SEC;
             loaded(&t.refused) == 0 && clock_now_ns() < until;)
            side_turn(&s.owner);
        usleep(20000);
        CHECK(memcmp(after, s.memory, BYTES) == 0, "round %u: a byte landed after the close",
              round);
        cut += loaded(&t.refused) > 0;
        __atomic_store_n(&t.stop, true, __ATOMIC_SEQ_CST);
        pthread_join(thread, NULL);
    }
    CHECK(cut > 0, "no round cut anything");
    scene_close(&s);
}

/* The peer's connections are cut, its window is not. */
static void no_byte_lands_after_a_peer_is_expelled(void) {
    struct scene s;
    uint8_t *after = map_pages(BYTES);
    struct wnd w;
    scene_open(&s);
    wnd_open(&s.owner, &w, PEER, &s.range);
    for (unsigned round = 0; round < test_count(200); round++) {
        pthread_t thread;
        raw_connect(&s.raw, &s.owner, PEER, 1);
        struct stream t = {.raw = &s.raw, .key = &w.key, .length = s.range.length};
        CHECK(pthread_create(&thread, NULL, stream_writes, &t) == 0, "no thread");
        while (loaded(&t.done) < 4)
            CHECK(loaded(&t.refused) == 0, "refused while nobody is expelled");
        fabric_verbs.expel(s.owner.fabric, PEER);
        memcpy(after, s.memory, BYTES);
        CHECK(fabric_verbs.accepted(s.owner.fabric) == 0, "a target is left");
        __atomic_store_n(&t.stop, true, __ATOMIC_SEQ_CST);
        pthread_join(thread, NULL);
        CHECK(memcmp(after, s.memory, BYTES) == 0, "round %u: a byte landed after expel", round);
        side_turn(&s.owner);
    }
    wnd_close(&s.owner, &w);
    scene_close(&s);
}

/* ---- opening and closing ------------------------------------------------------------------ */

static void a_close_during_the_open_is_told_once(void) {
    struct scene s;
    struct wnd w[64];
    scene_open(&s);
    for (unsigned i = 0; i < 64; i++) {
        struct range r = s.range;
        r.base += i / 2; /* two of each: the first shares, the second is the last */
        CHECK(wnd_ask(&s.owner, &w[i], PEER, &r) == FABRIC_PENDING, "%s", w[i].err.text);
    }
    for (unsigned i = 0; i < 64; i++)
        if (fabric_verbs.window_close(w[i].window, RDMAD_E_LEASE_REVOKED))
            w[i].closed++;
    for (unsigned i = 0; i < 64; i++)
        SIDE_UNTIL(&s.owner, w[i].closed);
    for (unsigned i = 0; i < 64; i++)
        CHECK(w[i].opened == 0 && w[i].failed == 0, "window %u was opened too", i);
    scene_close(&s);
}

static void windows_of_a_peer_to_one_range_share_a_registration(void) {
    struct scene s;
    struct wnd w[200], other;
    scene_open(&s);
    wnd_open(&s.owner, &w[0], PEER, &s.range);
    struct resources one = resources_of("rxe0");
    for (unsigned i = 1; i < 200; i++) {
        wnd_open(&s.owner, &w[i], PEER, &s.range);
        CHECK(w[i].key.rkey[0] == w[0].key.rkey[0], "two keys");
    }
    CHECK(resources_of("rxe0").mr == one.mr, "more than one registration");
    wnd_open(&s.owner, &other, OTHER_PEER, &s.range);
    CHECK(resources_of("rxe0").mr == one.mr + 1, "two peers share");
    for (unsigned i = 0; i < 199; i++)
        wnd_close(&s.owner, &w[i]);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    expect_done(&s, WRITE, &w[199], 0, 64);
    wnd_close(&s.owner, &w[199]);
    expect_refused(&s, WRITE, &w[199], 0, 64);
    wnd_close(&s.owner, &other);
    scene_close(&s);
}

static void a_thousand_windows_leave_nothing(void) {
    struct scene s;
    static struct wnd w[1000];
    scene_open(&s);
    struct resources before = resources_of("rxe0");
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 1000; i++) {
            struct range r = s.range;
            r.base += i;
            r.length -= 1000;
            CHECK(wnd_ask(&s.owner, &w[i], 1 + i % 5, &r) >= 0, "%s", w[i].err.text);
        }
        for (unsigned i = 0; i < 1000; i++)
            SIDE_UNTIL(&s.owner, w[i].opened);
        CHECK(resources_of("rxe0").mr == before.mr + 1000, "as many registrations as windows");
        for (unsigned i = 0; i < 1000; i++)
            if (fabric_verbs.window_close(w[i].window, RDMAD_E_LEASE_REVOKED))
                w[i].closed++;
        for (unsigned i = 0; i < 1000; i++)
            SIDE_UNTIL(&s.owner, w[i].closed);
        expect_resources("rxe0", &before);
    }
    scene_close(&s);
}

/* A lease may be of no bytes: its lessee is told that it has it, and the device of nothing. */
static void a_window_of_no_bytes_is_open_and_has_nothing_on_the_device(void) {
    struct scene s;
    struct wnd w;
    scene_open(&s);
    struct resources before = resources_of("rxe0");
    struct range r = s.range;
    r.length = 0;
    CHECK(wnd_ask(&s.owner, &w, PEER, &r) == 0, "%s", w.err.text);
    struct resources with = resources_of("rxe0");
    CHECK(with.mr == before.mr, "a registration of no bytes");
    CHECK(fabric_verbs.window_close(w.window, RDMAD_E_LEASE_REVOKED), "not closed at once");
    scene_close(&s);
}

/* In the library's place: a device that does not let go, so many times. */
static unsigned refusals;

int ibv_dereg_mr(struct ibv_mr *mr) {
    int (*real)(struct ibv_mr *) = (int (*)(struct ibv_mr *))dlsym(RTLD_NEXT, "ibv_dereg_mr");
    unsigned left = __atomic_load_n(&refusals, __ATOMIC_SEQ_CST);
    if (left == 0)
        return real(mr);
    __atomic_store_n(&refusals, left - 1, __ATOMIC_SEQ_CST);
    return EBUSY;
}

static void what_is_not_taken_back_is_not_called_closed(void) {
    struct scene s;
    struct wnd w;
    struct error err = {0};
    scene_open(&s);
    wnd_open(&s.owner, &w, PEER, &s.range);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    __atomic_store_n(&refusals, 4, __ATOMIC_SEQ_CST);
    CHECK(!fabric_verbs.window_close(w.window, RDMAD_E_LEASE_REVOKED), "at once");
    SIDE_UNTIL(&s.owner, fabric_verbs.accepted(s.owner.fabric) == 0); /* the peer is cut off */
    CHECK(w.closed == 0, "called closed");
    CHECK(raw_try(&s.raw, &s.owner, PEER, 1, &err) == RDMAD_E_FABRIC, "and let in again");
    CHECK(raw_try(&s.raw, &s.owner, OTHER_PEER, 1, &err) == 0, "others too: %s", err.text);
    SIDE_UNTIL(&s.owner, w.closed);
    CHECK(__atomic_load_n(&refusals, __ATOMIC_SEQ_CST) == 0, "called closed before it was");
    raw_connect(&s.raw, &s.owner, PEER, 1);
    scene_close(&s);
}

static void what_cannot_be_is_refused_in_words(void) {
    struct scene s;
    struct wnd w;
    scene_open(&s);
    struct range r = s.range;
    r.rights = 0;
    CHECK(wnd_ask(&s.owner, &w, PEER, &r) == RDMAD_E_INVAL, "a window of no rights");
    r = s.range;
    r.base = (uint8_t *)(uintptr_t)4096; /* nothing is there */
    CHECK(wnd_ask(&s.owner, &w, PEER, &r) == FABRIC_PENDING, "%s", w.err.text);
    SIDE_UNTIL(&s.owner, w.failed);
    CHECK(w.err.code == RDMAD_E_FABRIC && strstr(w.err.text, "rxe0"), "%s", w.err.text);
    CHECK(wnd_ask(&s.owner, &w, PEER, &r) == FABRIC_PENDING, "%s", w.err.text);
    CHECK(!fabric_verbs.window_close(w.window, RDMAD_E_LEASE_REVOKED), "closed while it opens");
    SIDE_UNTIL(&s.owner, w.closed);
    CHECK(w.failed == 0, "told of its failure too");
    scene_close(&s);
}

/* ---- a device that goes ------------------------------------------------------------------- */

static void windows_of_a_device_that_goes_are_gone_and_can_be_closed(void) {
    struct scene s;
    struct wnd open[4], again;
    scene_open(&s);
    for (unsigned i = 0; i < 4; i++) {
        struct range r = s.range;
        r.base += i;
        wnd_open(&s.owner, &open[i], PEER, &r);
    }
    raw_connect(&s.raw, &s.owner, PEER, 1);
    shell("(rdma link delete rxe0; rdma link add rxe0 type rxe netdev va) &");
    SIDE_UNTIL(&s.owner, !verbs_of(s.owner.fabric)->device);
    for (unsigned i = 0; i < 4; i++)
        CHECK(fabric_verbs.window_close(open[i].window, RDMAD_E_LEASE_REVOKED), "not gone");
    SIDE_UNTIL(&s.owner, verbs_of(s.owner.fabric)->device);
    wnd_open(&s.owner, &again, PEER, &s.range);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    expect_done(&s, WRITE, &again, 0, 64);
    wnd_close(&s.owner, &again);
    scene_close(&s);
}

/* ---- memory windows, which here hold nobody back, but work --------------------------------- */

static void scene_open_windows(struct scene *s, unsigned lanes) {
    struct error err = {0};
    *s = (struct scene){.before = resources_of("rxe0"), .raw_before = resources_of("rxe1")};
    side_defaults(&s->owner, "rxe0");
    s->owner.settings.verbs.windows = WINDOWS_FORCED;
    s->owner.settings.verbs.lanes = lanes;
    side_open(&s->owner);
    CHECK(verbs_of(s->owner.fabric)->device->memory_windows, "windows were not to be had by force");
    raw_open(&s->raw, "rxe1", BYTES);
    s->memory = map_pages(BYTES);
    s->range = (struct range){.base = s->memory, .length = BYTES, .rights = RDMAD_RIGHTS_ALL};
    int rc = fabric_verbs.memory_add(s->owner.host, s->memory, BYTES, &s->range.memory, &err);
    CHECK(rc == 0, "%s", err.text);
    raw_connect(&s->raw, &s->owner, PEER, lanes);
    s->range.via = s->raw.number;
}

static void scene_close_windows(struct scene *s) {
    fabric_verbs.memory_remove(s->range.memory);
    scene_close(s);
}

static void forced_windows_are_bound_used_and_closed(void) {
    struct scene s;
    struct wnd w, other;
    scene_open_windows(&s, 2);
    wnd_open(&s.owner, &w, PEER, &s.range);
    wnd_open(&s.owner, &other, PEER, &s.range);
    CHECK(w.key.count == 2 && w.key.rkey[0] != w.key.rkey[1], "a key for each lane");
    memset(s.raw.buffer, 7, BYTES);
    for (unsigned lane = 0; lane < 2; lane++) {
        enum ibv_wc_status status = raw_access(&s.raw, lane, WRITE, &w.key, 100 * lane, 100);
        CHECK(status == IBV_WC_SUCCESS, "lane %u: %s", lane, ibv_wc_status_str(status));
    }
    CHECK(s.memory[0] == 7 && s.memory[199] == 7 && s.memory[200] == 0, "not what was written");
    wnd_close(&s.owner, &w);
    CHECK(raw_access(&s.raw, 0, WRITE, &other.key, 0, 8) == IBV_WC_SUCCESS, "the other one too");
    CHECK(raw_access(&s.raw, 0, WRITE, &w.key, 0, 8) == IBV_WC_REM_ACCESS_ERR, "still open");
    wnd_close(&s.owner, &other);
    scene_close_windows(&s);
}

static void forced_windows_are_good_on_their_link_alone(void) {
    struct scene s;
    struct wnd w, late;
    struct raw thief;
    scene_open_windows(&s, 1);
    wnd_open(&s.owner, &w, PEER, &s.range);
    raw_open(&thief, "rxe1", BYTES);
    raw_connect(&thief, &s.owner, OTHER_PEER, 1);
    CHECK(raw_access(&thief, 0, WRITE, &w.key, 0, 8) != IBV_WC_SUCCESS, "on another's link");
    raw_connect(&thief, &s.owner, PEER, 1);
    CHECK(raw_access(&thief, 0, WRITE, &w.key, 0, 8) != IBV_WC_SUCCESS, "on another link");
    raw_close(&thief);
    s.range.via = 1u << 20;
    CHECK(wnd_ask(&s.owner, &late, PEER, &s.range) == RDMAD_E_PEER_LOST, "%s", late.err.text);
    wnd_close(&s.owner, &w);
    scene_close_windows(&s);
}

static void a_forced_window_goes_with_its_link_and_is_made_for_the_next(void) {
    struct scene s;
    struct wnd w, next;
    scene_open_windows(&s, 2);
    wnd_open(&s.owner, &w, PEER, &s.range);
    fabric_verbs.forget(s.owner.fabric, PEER, s.raw.number);
    SIDE_UNTIL(&s.owner, verbs_of(s.owner.fabric)->jobs == 0);
    CHECK(fabric_verbs.window_close(w.window, RDMAD_E_LEASE_REVOKED), "not gone with its link");
    CHECK(wnd_ask(&s.owner, &next, PEER, &s.range) == RDMAD_E_PEER_LOST, "%s", next.err.text);
    raw_connect(&s.raw, &s.owner, PEER, 2);
    s.range.via = s.raw.number;
    wnd_open(&s.owner, &next, PEER, &s.range);
    CHECK(raw_access(&s.raw, 1, WRITE, &next.key, 0, 8) == IBV_WC_SUCCESS, "on the new link");
    wnd_close(&s.owner, &next);
    scene_close_windows(&s);
}

/* More than are allocated ahead, and than a queue takes at once; some closed as they open. */
static void many_forced_windows_at_once(void) {
    struct scene s;
    static struct wnd w[300];
    scene_open_windows(&s, 2);
    for (unsigned i = 0; i < 300; i++) {
        int rc = wnd_ask(&s.owner, &w[i], PEER, &s.range);
        CHECK(rc == FABRIC_PENDING, "%s", w[i].err.text);
    }
    for (unsigned i = 0; i < 300; i += 3)
        CHECK(!fabric_verbs.window_close(w[i].window, RDMAD_E_LEASE_REVOKED), "at once");
    for (unsigned i = 0; i < 300; i++)
        SIDE_UNTIL(&s.owner, w[i].opened || w[i].closed);
    for (unsigned i = 0; i < 300; i++) {
        if (i % 3 == 0) {
            CHECK(w[i].opened == 0 && w[i].closed == 1, "window %u", i);
            continue;
        }
        enum ibv_wc_status status = raw_access(&s.raw, i % 2, WRITE, &w[i].key, i, 1);
        CHECK(status == IBV_WC_SUCCESS, "window %u: %s", i, ibv_wc_status_str(status));
        wnd_close(&s.owner, &w[i]);
    }
    scene_close_windows(&s);
}

/* Jobs, binds and open windows are on their way when the peer is cut off. */
static void a_link_that_goes_while_forced_windows_open(void) {
    struct scene s;
    static struct wnd w[120];
    scene_open_windows(&s, 2);
    for (unsigned i = 0; i < 120; i++) {
        CHECK(wnd_ask(&s.owner, &w[i], PEER, &s.range) == FABRIC_PENDING, "%s", w[i].err.text);
        if (i % 40 == 0)
            side_turn(&s.owner);
    }
    fabric_verbs.expel(s.owner.fabric, PEER);
    CHECK(fabric_verbs.accepted(s.owner.fabric) == 0, "a target is left");
    SIDE_UNTIL(&s.owner, verbs_of(s.owner.fabric)->jobs == 0);
    for (unsigned i = 0; i < 120; i++) {
        CHECK(w[i].opened + w[i].failed == 1, "window %u: nothing was told", i);
        if (w[i].failed)
            CHECK(w[i].err.code == RDMAD_E_PEER_LOST, "%s", w[i].err.text);
        else
            CHECK(fabric_verbs.window_close(w[i].window, RDMAD_E_LEASE_REVOKED), "not gone");
    }
    scene_close_windows(&s);
}

TEST_MAIN(CASE(bounds_hold_to_the_byte_at_both_ends), CASE(rights_hold),
          CASE(a_key_tells_no_address_of_ours), CASE(another_peers_key_is_worth_nothing),
          CASE(no_byte_lands_after_a_close_under_full_rate_writes),
          CASE(no_byte_lands_after_a_peer_is_expelled), CASE(a_close_during_the_open_is_told_once),
          CASE(windows_of_a_peer_to_one_range_share_a_registration),
          CASE(a_thousand_windows_leave_nothing),
          CASE(a_window_of_no_bytes_is_open_and_has_nothing_on_the_device),
          CASE(what_is_not_taken_back_is_not_called_closed),
          CASE(what_cannot_be_is_refused_in_words),
          CASE(windows_of_a_device_that_goes_are_gone_and_can_be_closed),
          CASE(forced_windows_are_bound_used_and_closed),
          CASE(forced_windows_are_good_on_their_link_alone),
          CASE(a_forced_window_goes_with_its_link_and_is_made_for_the_next),
          CASE(many_forced_windows_at_once), CASE(a_link_that_goes_while_forced_windows_open))
