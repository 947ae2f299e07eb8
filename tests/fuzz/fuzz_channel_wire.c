/* SPDX-License-Identifier: MIT */
/*
 * The messages of a channel's other end: whatever comes, each is taken, refused or a lie, one that
 * is taken says the same when it is written again, and the channel ends when it is told to.
 *
 * The input is records of two bytes, the length, and a message; its channel is put right.
 */
#include "common/ringword.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/channel/entry.h"
#include "daemon/op/channel/landing.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/turn/plane.h"
#include "daemon/op/turn/turn.h"
#include "tests/fuzz/one_worker.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PEER 7u
#define NUMBER 9u
#define VIA 1u
#define HANDLE (UINT64_C(1) << 32)
#define POOL 4096u
#define RECVS 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct plane *plane;
static struct mailbox control;
static uint64_t now_ns = NSEC_PER_SEC;
static unsigned answers;
static struct fabric_blob blob;

static void on_done(void *arg, const struct error *result) {
    (void)arg, (void)result;
    answers++;
}

static void on_blob(void *arg, const struct error *result, const struct fabric_blob *given) {
    (void)arg;
    must(result->code == 0);
    blob = *given;
    answers++;
}

static void turn(void) {
    now_ns += 1000;
    worker_turn(&plane->worker[0], now_ns);
    mailbox_drain(&control);
}

static void await(unsigned count) {
    for (unsigned n = 0; answers < count; n++) {
        now_ns += CHANNEL_SETTLE_NS;
        turn();
        must(n < 1000);
    }
    answers = 0;
}

static struct plane_lane *connected(void) {
    struct plane_lane *lane = plane_lane_new(plane, 0, 0, false, NULL);
    must(lane != NULL);
    plane_lane_hello(lane, on_blob, NULL);
    await(1);
    plane_offer(plane, 0, PEER, false, &blob, on_blob, NULL);
    await(1);
    plane_lane_open(lane, "", &blob, on_done, NULL);
    await(1);
    return lane;
}

static void put_all(const struct ring *ring) {
    struct rdmad_ring_client *words = (void *)(uintptr_t)ring->client;
    struct rdmad_sqe *sqe = (void *)(uintptr_t)ring->sqe;
    must(mprotect(words, ring->client_bytes, PROT_READ | PROT_WRITE) == 0);
    for (uint32_t i = 0; i < RECVS + 2; i++)
        sqe[i] = (struct rdmad_sqe){.opcode = i < RECVS ? RDMAD_OP_RECV : RDMAD_OP_SEND,
                                    .pool = HANDLE,
                                    .length = i % 2 ? POOL : 64,
                                    .lease = HANDLE};
    ringword_publish(&words->sq_tail, RECVS + 2);
}

/* The same, its payload behind it. This daemon's fabric lands nothing, so it is over at once. */
static void one_landing(uint8_t *bytes, size_t size) {
    if (size <= CHANNEL_HEAD)
        return;
    struct fabric_landing *to =
        channel_landing(&plane->worker[0], PEER, VIA, bytes, CHANNEL_HEAD, size - CHANNEL_HEAD);
    if (!to)
        return;
    memcpy(to->base, bytes + CHANNEL_HEAD, size - CHANNEL_HEAD);
    channel_landed(to, bytes[CHANNEL_HEAD] % 2 ? RDMAD_OK : RDMAD_E_PEER_LOST);
}

static void one_message(const uint8_t *data, size_t size) {
    struct channel_message m;
    uint8_t head[FABRIC_HEAD_MAX], *bytes = malloc(size ? size : 1);
    memcpy(bytes, data, size);
    if (size >= 16)
        memset(bytes + 8, 0, 8), bytes[8] = NUMBER;
    if (!channel_decode(&m, bytes, size, 0)) {
        size_t length = channel_encode(&m, head);
        must(length <= size && memcmp(head, bytes, length) == 0);
    }
    if (size % 2)
        one_landing(bytes, size);
    else
        channel_received(&plane->worker[0], PEER, VIA, bytes, size);
    free(bytes);
    turn();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t pool[POOL];
    static struct plane_channel_stats stats;
    struct ring *ring;
    struct error err;
    int fds[RING_FDS];
    if (!plane)
        plane = one_worker_start(&control, now_ns);
    if (size < 3 || size > 16384)
        return -1;
    struct plane_lane *lane = connected();
    struct plane_session *s = plane_session_add(plane, 1, (struct user_id){0}, NULL);
    const struct plane_channel_spec spec = {
        .number = NUMBER, .kind = data[0] % 3, .lane = lane, .peer_in = PEER, .stats = &stats};
    must(s != NULL);
    must(ring_create(16, 32, &ring, fds, &err) == 0);
    plane_ring_add(s, HANDLE, ring, on_done, NULL);
    plane_pool_add(s, HANDLE, pool, POOL, NULL, on_done, NULL);
    plane_channel_add(s, HANDLE, &spec, on_done, NULL);
    plane_channel_open(s, HANDLE, NUMBER + 1, NULL);
    await(3);
    put_all(ring);
    turn();
    for (size_t at = 1; at + 2 <= size;) {
        size_t length = (size_t)(data[at] | data[at + 1] << 8);
        at += 2;
        if (length > size - at)
            length = size - at;
        one_message(data + at, length);
        at += length;
    }
    plane_session_drop(s, on_done, NULL);
    plane_lane_drop(lane, on_done, NULL);
    await(2);
    for (int i = 0; i < RING_FDS; i++)
        close(fds[i]);
    ring_destroy(ring);
    return 0;
}
