/* SPDX-License-Identifier: MIT */
/*
 * weak_receiver.c - where datagrams and unacknowledged messages of a connection's peer arrive.
 *
 * The happy path: a request makes a QP with receives of its own, and its place is written into the
 * page; a message that comes is checked, handed on, and its receive posted again. Whatever finds no
 * receive is lost, as the peer was told; whoever counts messages counts them above.
 *
 * A QP of UC is given a path, and nothing keeps the kernel's knowledge of the peer's address fresh
 * while messages go by RC alone. While the kernel looks for it the receiver waits, and the page
 * says that it is not made yet: a few of those that wait are tried at once, in turn, whoever
 * requested them.
 *
 * A peer can fill only its own receivers. One that requests twice or in no known way has its
 * connection broken; a datagram that does not come from its QP with its token is dropped. A
 * receiver that cannot be made is refused, and the peer goes without.
 */
#include "daemon/fabric/verbs/target/weak_receiver.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/undumped.h"
#include "daemon/fabric/verbs/instance/qp.h"
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define RECEIVES 64u
#define GRH_BYTES 40u /* before a datagram, whether it has one or not */
#define MESSAGE_BYTES (4096u + FABRIC_HEAD_MAX)
#define BUFFER_BYTES (GRH_BYTES + WEAK_TOKEN + MESSAGE_BYTES)
#define RECEIVES_BYTES ((size_t)RECEIVES * BUFFER_BYTES)
#define QKEY_MAX 0x7fffffffu /* the upper half is the kernel's */
#define OPEN_AGAIN_NS (10 * NSEC_PER_MSEC)
#define OPEN_AT_ONCE 8u

struct weak_receiver {
    struct queue queue;
    struct list opening; /* in targets.opening while the way to the peer is looked for */
    struct verbs_target *target;
    enum weak_kind kind;
    uint8_t *memory;
    struct ibv_mr *mr;
    uint32_t from, psn; /* of the peer's QP: its number, and that of its first packet */
    uint32_t word;
    uint64_t token;
};

/* ---- messages ------------------------------------------------------------------------------ */

static uint8_t *weak_receiver_buffer(const struct weak_receiver *r, uint32_t n) {
    return r->memory + (size_t)n * BUFFER_BYTES;
}

static int weak_receiver_post(struct weak_receiver *r, uint32_t n) {
    struct ibv_sge sge = {
        .addr = (uintptr_t)weak_receiver_buffer(r, n), .length = BUFFER_BYTES, .lkey = r->mr->lkey};
    return queue_receive(&r->queue, n, &sge);
}

/* Whether the connection's peer sent the message; *skip: where it begins. */
static bool weak_receiver_is_ours(const struct weak_receiver *r, uint32_t n,
                                  const struct ibv_wc *wc, uint32_t *skip) {
    uint64_t token;
    *skip = 0;
    if (wc->opcode != IBV_WC_RECV || wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))
        return false;
    if (r->kind == WEAK_UNACKED)
        return true;
    *skip = GRH_BYTES + WEAK_TOKEN;
    if (wc->src_qp != r->from || wc->byte_len < *skip)
        return false;
    memcpy(&token, weak_receiver_buffer(r, n) + GRH_BYTES, sizeof(token));
    return token == r->token;
}

static void weak_receiver_received(struct queue *q, uint32_t n, const struct ibv_wc *wc) {
    struct weak_receiver *r = container_of(q, struct weak_receiver, queue);
    struct verbs_target *t = r->target;
    const struct fabric_env *env = t->peer->verbs->env;
    uint32_t skip;
    if (t->state != TARGET_LIVE)
        return;
    if (wc->status == IBV_WC_SUCCESS && weak_receiver_is_ours(r, n, wc, &skip))
        env->received(env->user, t->peer->id, t->number, weak_receiver_buffer(r, n) + skip,
                      wc->byte_len - skip);
    else if (wc->status != IBV_WC_SUCCESS)
        LOG_LIMITED_OF(log_of_connection(t->peer->id), INFO,
                       ("link %" PRIu64 " of a peer: a message that may be lost: %s", t->number,
                        ibv_wc_status_str(wc->status)),
                       FIELD_U64("PEER", t->peer->id));
    if (t->state == TARGET_LIVE && wc->status != IBV_WC_WR_FLUSH_ERR && weak_receiver_post(r, n))
        target_broke(t);
}

/* ---- its making ---------------------------------------------------------------------------- */

static int weak_receiver_random(struct weak_receiver *r) {
    if (getrandom(&r->token, sizeof(r->token), 0) != (ssize_t)sizeof(r->token) ||
        getrandom(&r->word, sizeof(r->word), 0) != (ssize_t)sizeof(r->word))
        return errno;
    r->word &= QKEY_MAX;
    return 0;
}

static int weak_receiver_failed(struct error *err, const struct weak_receiver *r, int rc,
                                const char *what) {
    errno = rc;
    return error_errno(err, RDMAD_E_FABRIC, "%s: %s", r->target->peer->verbs->device->name, what);
}

static int weak_receiver_make(struct weak_receiver *r, struct error *err) {
    struct verbs_target *t = r->target;
    const struct device *device = t->peer->verbs->device;
    struct qp_spec spec = {.pd = device->memory_windows ? device->pd : t->peer->pd,
                           .type = weak_qp_type(r->kind),
                           .depth = 1,
                           .receives = RECEIVES,
                           .qkey = r->word};
    void *memory = mmap(NULL, RECEIVES_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return weak_receiver_failed(err, r, errno, "no memory for messages");
    undumped_mark(memory, RECEIVES_BYTES);
    r->memory = memory;
    r->mr = ibv_reg_mr(spec.pd, memory, RECEIVES_BYTES, IBV_ACCESS_LOCAL_WRITE);
    if (!r->mr)
        return weak_receiver_failed(err, r, errno, "memory for messages cannot be registered");
    r->queue.received = weak_receiver_received;
    int rc = qp_make(t->peer->verbs, &r->queue, &spec, err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < r->queue.receives && rc == 0; i++)
        rc = weak_receiver_post(r, i);
    return rc ? weak_receiver_failed(err, r, rc, "receives for messages cannot be posted") : 0;
}

static void weak_receiver_tell(struct verbs_target *t, enum weak_kind kind, uint32_t qp_num) {
    struct inbox_page *page = (struct inbox_page *)(void *)t->inbox.memory;
    struct weak_place *at = &page->place[kind];
    const struct weak_receiver *r = t->weak[kind];
    at->word = htole32(r->word);
    at->token = r->token;
    __atomic_store_n(&at->qp_num, htole32(qp_num), __ATOMIC_RELEASE);
}

static void weak_receiver_close(struct weak_receiver *r) {
    if (!r)
        return;
    list_remove(&r->opening);
    qp_destroy(&r->queue);
    if (r->mr && ibv_dereg_mr(r->mr))
        LOG_LIMITED(ERR,
                    ("%s keeps a registration of messages", r->target->peer->verbs->device->name));
    r->mr = NULL;
}

static void weak_receiver_refuse(struct weak_receiver *r, const struct error *why) {
    const struct vpeer *p = r->target->peer;
    LOG_LIMITED_OF(log_of_connection(p->id), WARNING, ("%s", why->text), FIELD_U64("PEER", p->id));
    weak_receiver_close(r);
    weak_receiver_tell(r->target, r->kind, WEAK_REFUSED);
}

static void weak_receiver_wait(struct weak_receiver *r) {
    struct verbs *v = r->target->peer->verbs;
    struct targets *all = &v->targets;
    if (list_empty(&all->opening))
        all->open_ns = clock_after(v->now_ns, OPEN_AGAIN_NS);
    list_append(&all->opening, &r->opening);
    verbs_timer_at(v, all->open_ns);
}

static void weak_receiver_open(struct weak_receiver *r) {
    const struct queue *path = &r->target->queue[0];
    struct error why;
    int rc = r->kind == WEAK_UNACKED ? weak_qp_find_way(path) : 0;
    if (rc == EAGAIN) {
        weak_receiver_wait(r);
        return;
    }
    if (rc == 0)
        rc = weak_qp_open(&r->queue, r->kind, path, r->from, r->psn);
    if (rc) {
        weak_receiver_failed(&why, r, rc, "a queue pair for messages cannot be opened");
        weak_receiver_refuse(r, &why);
        return;
    }
    weak_receiver_tell(r->target, r->kind, r->queue.qp->qp_num);
}

void weak_receivers_timers(struct verbs *v) {
    struct targets *all = &v->targets;
    struct list waiting, *node;
    if (list_empty(&all->opening))
        return;
    if (v->now_ns < all->open_ns) {
        verbs_timer_at(v, all->open_ns);
        return;
    }
    list_init(&waiting);
    list_splice(&waiting, &all->opening);
    for (unsigned i = 0; i < OPEN_AT_ONCE && (node = list_pop(&waiting)); i++) {
        struct weak_receiver *r = list_entry(node, struct weak_receiver, opening);
        if (r->target->state == TARGET_LIVE)
            weak_receiver_open(r);
    }
    if (list_empty(&waiting))
        return;
    list_splice(&waiting, &all->opening); /* behind those that were not tried */
    list_splice(&all->opening, &waiting);
    all->open_ns = clock_after(v->now_ns, OPEN_AGAIN_NS);
    verbs_timer_at(v, all->open_ns);
}

bool weak_receiver_requested(struct verbs_target *t, const void *bytes, size_t size) {
    struct weak_request k;
    struct error why;
    if (size != sizeof(k))
        return false;
    memcpy(&k, bytes, sizeof(k));
    uint32_t kind = le32toh(k.kind), from = le32toh(k.qp_num);
    if (kind >= WEAK_KINDS || t->weak[kind] || from < 2 || from > 0xffffff)
        return false;
    struct weak_receiver *r = t->weak[kind] = calloc(1, sizeof(*r));
    if (!r)
        return false;
    *r = (struct weak_receiver){
        .target = t, .kind = (enum weak_kind)kind, .from = from, .psn = le32toh(k.psn)};
    list_init(&r->opening);
    int rc = weak_receiver_random(r);
    if (rc)
        weak_receiver_failed(&why, r, rc, "no random bytes for messages");
    else
        rc = weak_receiver_make(r, &why);
    if (rc)
        weak_receiver_refuse(r, &why);
    else
        weak_receiver_open(r);
    return true;
}

void weak_receivers_close(struct verbs_target *t) {
    for (unsigned i = 0; i < WEAK_KINDS; i++)
        weak_receiver_close(t->weak[i]);
}

void weak_receivers_free(struct verbs_target *t) {
    for (unsigned i = 0; i < WEAK_KINDS; i++) {
        if (t->weak[i] && t->weak[i]->memory)
            munmap(t->weak[i]->memory, RECEIVES_BYTES);
        free(t->weak[i]);
        t->weak[i] = NULL;
    }
}
