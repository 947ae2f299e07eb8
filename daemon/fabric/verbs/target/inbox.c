/* SPDX-License-Identifier: MIT */
/*
 * inbox.c - messages of a peer, by one of its connections.
 *
 * The happy path: receives over buffers of the daemon are posted before the connection is up; a
 * message that came is handed on from its buffer, the receive is posted again, and then the counter
 * says so, which the peer reads by itself. It sends no more beyond what it has read there than
 * there are receives, so the device always has one for it and never answers that it has not.
 *
 * A peer reaches two registrations more by this, both in the PD of its connection: the buffers, to
 * which it has no right but to send, and the page (wire/page.h), which it may read. Where peers
 * share a PD (memory windows) an rkey is soon guessed, so the page lies at a random address.
 *
 * An access that is refused breaks the QP and flushes the receives; other lanes of the connection
 * go on until the peer comes anew, or says that it is gone.
 *
 * A peer that sends more than it may is told to wait by the device and loses its own connection
 * when its retries are over; one that sends what is too long, or what no daemon of ours sends
 * (values beside the message, invalidations), has it broken. All memory is bounded by the
 * connections that a peer may have.
 *
 * A connection that ends hands on what came before its end: its sender was told that it did.
 */
#include "daemon/fabric/verbs/target/inbox.h"
#include "daemon/base/log.h"
#include "daemon/base/undumped.h"
#include "daemon/fabric/verbs/target/weak_receiver.h"
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define MESSAGE_BYTES (4096u + FABRIC_HEAD_MAX)
#define PAGE 4096u
#define MEMORY_BYTES (PAGE + INBOX_RECEIVES * MESSAGE_BYTES)

static uint8_t *inbox_buffer(const struct inbox *in, uint32_t n) {
    return in->memory + PAGE + (size_t)n * in->size;
}

static void inbox_set_consumed(struct inbox *in) {
    struct inbox_page *page = (struct inbox_page *)(void *)in->memory;
    __atomic_store_n(&page->consumed, htole64(in->consumed), __ATOMIC_RELEASE);
}

/* Sets the answer to the message that is counted next. The peer sends no more beyond what it has
 * read here than there are receives, so it sees each answer that it waits for before another takes
 * its place. */
static void inbox_set_answer(struct inbox *in, uint64_t word) {
    struct inbox_page *page = (struct inbox_page *)(void *)in->memory;
    struct inbox_answer *at = &page->answer[in->consumed % INBOX_RECEIVES];
    __atomic_store_n(&at->word, htole64(word), __ATOMIC_RELAXED);
    __atomic_store_n(&at->seal, htole64(answer_seal(word, in->consumed)), __ATOMIC_RELAXED);
}

/* ---- birth and end ------------------------------------------------------------------------- */

/* A whole page, as ibv_reg_mr_iova wants it, of which the device's last is far. */
static bool inbox_choose_address(struct inbox *in) {
    uint64_t random;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    in->address = random >> 1 & ~(uint64_t)(PAGE - 1);
    return true;
}

int inbox_open(struct verbs_target *t, struct ibv_pd *pd, struct error *err) {
    struct inbox *in = &t->inbox;
    if (!inbox_choose_address(in))
        return error_errno(err, RDMAD_E_SYSTEM, "no random bytes for a peer's connection");
    void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(err, RDMAD_E_NOMEM, "no memory for the messages of one more connection");
    undumped_mark(memory, MEMORY_BYTES);
    in->memory = memory;
    in->size = MESSAGE_BYTES;
    in->mr = ibv_reg_mr(pd, inbox_buffer(in, 0), (size_t)INBOX_RECEIVES * MESSAGE_BYTES,
                        IBV_ACCESS_LOCAL_WRITE);
    if (in->mr)
        in->page_mr = ibv_reg_mr_iova(pd, in->memory, sizeof(struct inbox_page), in->address,
                                      IBV_ACCESS_REMOTE_READ);
    if (in->page_mr)
        return 0;
    int rc = error_errno(err, RDMAD_E_FABRIC,
                         "%s: the %u bytes for a peer's messages cannot be registered (raise the "
                         "daemon's memlock limit, or lower verbs.links_per_peer)",
                         t->peer->verbs->device->name, MEMORY_BYTES);
    inbox_close(t);
    inbox_free(t);
    return rc;
}

static int inbox_post(struct verbs_target *t, uint32_t n) {
    struct inbox *in = &t->inbox;
    struct ibv_sge sge = {
        .addr = (uintptr_t)inbox_buffer(in, n), .length = in->size, .lkey = in->mr->lkey};
    int failed = queue_receive(&t->queue[0], n, &sge);
    if (!failed)
        in->posted++;
    return failed;
}

int inbox_start(struct verbs_target *t, struct error *err) {
    struct inbox *in = &t->inbox;
    assert(in->posted == 0 && t->queue[0].qp);
    uint32_t most = t->queue[0].receives < INBOX_RECEIVES ? t->queue[0].receives : INBOX_RECEIVES;
    for (in->count = 0; in->count < most; in->count++) {
        int failed = inbox_post(t, in->count);
        if (!failed)
            continue;
        errno = failed;
        return error_errno(err, RDMAD_E_FABRIC, "%s: receives cannot be posted",
                           t->peer->verbs->device->name);
    }
    return 0;
}

static uint8_t features_of(const struct device *d) {
    unsigned features = device_has_atomics(d) ? TARGET_ATOMICS : 0;
    if (d->services & 1u << RDMAD_CHANNEL_DATAGRAM)
        features |= TARGET_DATAGRAM;
    if (d->services & 1u << RDMAD_CHANNEL_UNACKED)
        features |= TARGET_UNACKED;
    return (uint8_t)features;
}

void inbox_tell(const struct verbs_target *t, struct inbox_place *out) {
    const struct inbox *in = &t->inbox;
    *out = (struct inbox_place){
        .address = in->address,
        .rkey = in->page_mr->rkey,
        .size = in->size,
        .count = (uint16_t)in->count,
        .features = features_of(t->peer->verbs->device),
    };
}

static void inbox_deregister(const struct verbs_target *t, struct ibv_mr **mr) {
    if (*mr && ibv_dereg_mr(*mr))
        LOG_LIMITED(ERR, ("%s keeps a registration of messages", t->peer->verbs->device->name),
                    FIELD_U64("PEER", t->peer->id));
    *mr = NULL;
}

void inbox_close(struct verbs_target *t) {
    inbox_deregister(t, &t->inbox.page_mr);
    inbox_deregister(t, &t->inbox.mr);
}

void inbox_free(struct verbs_target *t) {
    if (t->inbox.memory)
        munmap(t->inbox.memory, MEMORY_BYTES);
    t->inbox.memory = NULL;
}

/* ---- messages ------------------------------------------------------------------------------ */

static void inbox_broke(struct verbs_target *t, const char *how) {
    if (t->state == TARGET_LIVE)
        LOG_LIMITED_OF(log_of_connection(t->peer->id), INFO,
                       ("link %" PRIu64 " of a peer broke: a message: %s", t->number, how),
                       FIELD_U64("PEER", t->peer->id));
    target_broke(t);
}

static bool is_plain(const struct ibv_wc *wc, const struct inbox *in) {
    return wc->opcode == IBV_WC_RECV && !(wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) &&
           wc->byte_len <= in->size;
}

static bool is_request(const struct ibv_wc *wc) {
    return wc->opcode == IBV_WC_RECV && (wc->wc_flags & IBV_WC_WITH_IMM) &&
           wc->imm_data == htobe32(WEAK_REQUEST_IMM);
}

static void inbox_post_again(struct verbs_target *t, uint32_t n) {
    if (t->state != TARGET_LIVE)
        return;
    int failed = inbox_post(t, n);
    if (failed) {
        inbox_broke(t, strerror(failed));
        return;
    }
    t->inbox.consumed++;
    inbox_set_consumed(&t->inbox);
}

/* Everybody may be called here and end anything; t itself lives until the next turn. */
static void inbox_hand_on(struct verbs_target *t, uint32_t n, const struct ibv_wc *wc) {
    const struct fabric_env *env = t->peer->verbs->env;
    uint64_t word =
        env->received(env->user, t->peer->id, t->number, inbox_buffer(&t->inbox, n), wc->byte_len);
    inbox_set_answer(&t->inbox, word);
    inbox_post_again(t, n);
}

static void inbox_requested(struct verbs_target *t, uint32_t n, const struct ibv_wc *wc) {
    if (t->state != TARGET_LIVE)
        return;
    if (weak_receiver_requested(t, inbox_buffer(&t->inbox, n), wc->byte_len))
        inbox_post_again(t, n);
    else
        inbox_broke(t, "it asks for what no daemon does");
}

void inbox_received(struct queue *q, uint32_t n, const struct ibv_wc *wc) {
    struct verbs_target *t = container_of(q, struct verbs_target, queue[0]);
    assert(t->inbox.posted > 0);
    t->inbox.posted--;
    if (wc->status == IBV_WC_WR_FLUSH_ERR)
        q->broken = true; /* by an access: other lanes may go on until the peer comes anew */
    else if (wc->status != IBV_WC_SUCCESS)
        inbox_broke(t, ibv_wc_status_str(wc->status));
    else if (is_request(wc))
        inbox_requested(t, n, wc);
    else if (!is_plain(wc, &t->inbox))
        inbox_broke(t, "it is of a kind that no daemon sends");
    else if (t->state != TARGET_LEAVING)
        inbox_hand_on(t, n, wc);
    if (t->state == TARGET_DRAINING && t->inbox.posted == 0)
        target_note(t);
}
