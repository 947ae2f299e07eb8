/* SPDX-License-Identifier: MIT */
/*
 * door.c - where datagrams and unacknowledged messages of a connection's peer arrive, and the QPs
 * of both ends of that.
 *
 * The happy path: a knock makes a QP with receives of its own, and writes its place into the page;
 * a message that comes is checked, handed on, and its receive posted again. Whatever finds no
 * receive is lost, as the peer was told; whoever counts messages counts them above.
 *
 * A peer can fill only its own doors. One that knocks twice or in no known way has its connection
 * broken; a datagram that does not come from its QP with its token is dropped. A door that cannot
 * be made is refused, and the peer goes without.
 */
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/target/weak.h"
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
#define BUFFER_BYTES (GRH_BYTES + DOOR_TOKEN + MESSAGE_BYTES)
#define MEMORY_BYTES ((size_t)RECEIVES * BUFFER_BYTES)
#define QKEY_MAX 0x7fffffffu /* the upper half is the kernel's */

struct door {
    struct queue queue;
    struct target *target;
    enum door_kind kind;
    uint8_t *memory;
    struct ibv_mr *mr;
    uint32_t from; /* the peer's QP */
    uint32_t word;
    uint64_t token;
};

/* ---- QPs of these kinds -------------------------------------------------------------------- */

int door_qp_make(struct verbs *v, struct queue *q, enum door_kind kind, const struct qp_spec *spec,
                 struct error *err) {
    struct qp_spec s = *spec;
    s.type = kind == DOOR_DATAGRAM ? IBV_QPT_UD : IBV_QPT_UC;
    return qp_make(v, q, &s, err);
}

int door_path(const struct queue *path, struct ibv_qp_attr *out) {
    struct ibv_qp_init_attr init;
    return ibv_query_qp(path->qp, out, IBV_QP_AV | IBV_QP_PATH_MTU, &init);
}

int door_qp_open(struct queue *q, enum door_kind kind, const struct queue *path, uint32_t other,
                 uint32_t psn) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR}, way;
    int mask = IBV_QP_STATE;
    if (kind == DOOR_UNACKED) {
        int rc = door_path(path, &way);
        if (rc)
            return rc;
        attr.ah_attr = way.ah_attr;
        attr.path_mtu = way.path_mtu;
        attr.dest_qp_num = other;
        attr.rq_psn = psn;
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    }
    int rc = ibv_modify_qp(q->qp, &attr, mask);
    if (rc)
        return rc;
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = q->psn};
    rc = ibv_modify_qp(q->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    q->other = other;
    q->connected = rc == 0;
    return rc;
}

/* ---- messages ------------------------------------------------------------------------------ */

static uint8_t *buffer_of(const struct door *d, uint32_t n) {
    return d->memory + (size_t)n * BUFFER_BYTES;
}

static int post(struct door *d, uint32_t n) {
    struct ibv_sge sge = {
        .addr = (uintptr_t)buffer_of(d, n), .length = BUFFER_BYTES, .lkey = d->mr->lkey};
    return queue_receive(&d->queue, n, &sge);
}

/* Whether its peer sent it; then *skip is where the message begins. */
static bool is_ours(const struct door *d, uint32_t n, const struct ibv_wc *wc, uint32_t *skip) {
    uint64_t token;
    *skip = 0;
    if (wc->opcode != IBV_WC_RECV || wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))
        return false;
    if (d->kind == DOOR_UNACKED)
        return true;
    *skip = GRH_BYTES + DOOR_TOKEN;
    if (wc->src_qp != d->from || wc->byte_len < *skip)
        return false;
    memcpy(&token, buffer_of(d, n) + GRH_BYTES, sizeof(token));
    return token == d->token;
}

static void door_received(struct queue *q, uint32_t n, const struct ibv_wc *wc) {
    struct door *d = container_of(q, struct door, queue);
    struct target *t = d->target;
    const struct fabric_env *env = t->peer->verbs->env;
    uint32_t skip;
    if (t->leaving)
        return;
    if (wc->status == IBV_WC_SUCCESS && is_ours(d, n, wc, &skip))
        env->received(env->user, t->peer->id, t->number, buffer_of(d, n) + skip,
                      wc->byte_len - skip);
    else if (wc->status != IBV_WC_SUCCESS)
        LOG_LIMITED(INFO,
                    ("link %" PRIu64 " of a peer: a message that may be lost: %s", t->number,
                     ibv_wc_status_str(wc->status)),
                    FIELD_U64("PEER", t->peer->id));
    if (!t->leaving && wc->status != IBV_WC_WR_FLUSH_ERR && post(d, n))
        target_close(t);
}

/* ---- its making ---------------------------------------------------------------------------- */

static int random_words(struct door *d) {
    if (getrandom(&d->token, sizeof(d->token), 0) != (ssize_t)sizeof(d->token) ||
        getrandom(&d->word, sizeof(d->word), 0) != (ssize_t)sizeof(d->word))
        return errno;
    d->word &= QKEY_MAX;
    return 0;
}

static int failed(struct error *err, const struct door *d, int rc, const char *what) {
    errno = rc;
    return error_errno(err, RDMAD_E_FABRIC, "%s: %s", d->target->peer->verbs->device->name, what);
}

static int make(struct door *d, const struct knock *k, struct error *err) {
    struct target *t = d->target;
    const struct device *device = t->peer->verbs->device;
    struct qp_spec spec = {.pd = device->windows ? device->pd : t->peer->pd,
                           .depth = 1,
                           .receives = RECEIVES,
                           .qkey = d->word};
    void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return failed(err, d, errno, "no memory for messages");
    d->memory = memory;
    d->mr = ibv_reg_mr(spec.pd, memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE);
    if (!d->mr)
        return failed(err, d, errno, "memory for messages cannot be registered");
    d->queue.received = door_received;
    int rc = door_qp_make(t->peer->verbs, &d->queue, d->kind, &spec, err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < d->queue.receives && rc == 0; i++)
        rc = post(d, i);
    if (rc == 0)
        rc = door_qp_open(&d->queue, d->kind, &t->queue[0], d->from, le32toh(k->psn));
    return rc ? failed(err, d, rc, "a queue pair for messages cannot be opened") : 0;
}

static void tell(struct target *t, enum door_kind kind, uint32_t qp_num) {
    struct inbox_page *page = (struct inbox_page *)(void *)t->inbox.memory;
    struct door_place *at = &page->door[kind];
    const struct door *d = t->door[kind];
    at->word = htole32(d->word);
    at->token = d->token;
    __atomic_store_n(&at->qp_num, htole32(qp_num), __ATOMIC_RELEASE);
}

static void door_close(struct door *d) {
    if (!d)
        return;
    qp_destroy(&d->queue);
    if (d->mr && ibv_dereg_mr(d->mr))
        LOG_LIMITED(ERR,
                    ("%s keeps a registration of messages", d->target->peer->verbs->device->name));
    d->mr = NULL;
}

bool door_knocked(struct target *t, const void *bytes, size_t size) {
    struct knock k;
    struct error why;
    if (size != sizeof(k))
        return false;
    memcpy(&k, bytes, sizeof(k));
    uint32_t kind = le32toh(k.kind), from = le32toh(k.qp_num);
    if (kind >= DOORS || t->door[kind] || from < 2 || from > 0xffffff)
        return false;
    struct door *d = t->door[kind] = calloc(1, sizeof(*d));
    if (!d)
        return false;
    *d = (struct door){.target = t, .kind = (enum door_kind)kind, .from = from};
    int rc = random_words(d);
    if (rc)
        failed(&why, d, rc, "no random bytes for messages");
    else
        rc = make(d, &k, &why);
    if (rc) {
        LOG_LIMITED(WARNING, ("%s", why.text), FIELD_U64("PEER", t->peer->id));
        door_close(d);
    }
    tell(t, d->kind, rc ? DOOR_REFUSED : d->queue.qp->qp_num);
    return true;
}

void doors_close(struct target *t) {
    for (unsigned i = 0; i < DOORS; i++)
        door_close(t->door[i]);
}

void doors_free(struct target *t) {
    for (unsigned i = 0; i < DOORS; i++) {
        if (t->door[i] && t->door[i]->memory)
            munmap(t->door[i]->memory, MEMORY_BYTES);
        free(t->door[i]);
        t->door[i] = NULL;
    }
}
