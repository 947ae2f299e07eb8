/* SPDX-License-Identifier: MIT */
/*
 * verbs.c - calls to an RDMA device that fail on demand (page.h): what our own code asks of
 * libibverbs and librdmacm, by the linker's --wrap, and what their headers call directly, by the
 * device's table.
 *
 * A device may also fail a work request that it took: then the completion says that the peer did
 * not answer, and the queue pair is in error, as the hardware would have it. Polls that bring
 * nothing are not counted, for there are as many as there is time.
 *
 * Left out: what gives something back (destroy, dereg, dealloc, ack), and what only asks the device
 * by its table (ibv_query_device_ex).
 */
#include "tests/fault/fails.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>

#undef ibv_query_port /* macros, whose functions have the same names */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static bool device_fails(const char *call) {
    return fails(FAULT_VERBS, call);
}

#define WRAP(failure, code, type, name, parameters, arguments) \
    type __real_##name parameters;                             \
    type __wrap_##name parameters;                             \
    type __wrap_##name parameters {                            \
        if (device_fails(#name)) {                             \
            errno = (code);                                    \
            return failure;                                    \
        }                                                      \
        return __real_##name arguments;                        \
    }
#define MAKES(type, name, parameters, arguments) \
    WRAP(NULL, ENOMEM, type, name, parameters, arguments)
#define TELLS(code, name, parameters, arguments) WRAP(code, code, int, name, parameters, arguments)
#define CM(code, name, parameters, arguments) WRAP(-1, code, int, name, parameters, arguments)

/* ---- what is made --------------------------------------------------------------------------- */

MAKES(struct ibv_device **, ibv_get_device_list, (int *n), (n))
MAKES(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * c), (c))
MAKES(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * c), (c))
MAKES(struct ibv_cq *, ibv_create_cq,
      (struct ibv_context * c, int n, void *user, struct ibv_comp_channel *channel, int vector),
      (c, n, user, channel, vector))
MAKES(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *at, size_t n, int access),
      (pd, at, n, access))
MAKES(struct ibv_mr *, ibv_reg_mr_iova,
      (struct ibv_pd * pd, void *at, size_t n, uint64_t iova, int access),
      (pd, at, n, iova, access))
MAKES(struct ibv_mr *, ibv_reg_mr_iova2,
      (struct ibv_pd * pd, void *at, size_t n, uint64_t iova, unsigned access),
      (pd, at, n, iova, access))
MAKES(struct ibv_ah *, ibv_create_ah, (struct ibv_pd * pd, struct ibv_ah_attr *attr), (pd, attr))
TELLS(EIO, ibv_query_port,
      (struct ibv_context * c, uint8_t port, struct _compat_ibv_port_attr *attr), (c, port, attr))
TELLS(ENOMEM, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask),
      (qp, attr, mask))
TELLS(EIO, ibv_query_qp,
      (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init),
      (qp, attr, mask, init))

/* ---- rdma_cm -------------------------------------------------------------------------------- */

MAKES(struct rdma_event_channel *, rdma_create_event_channel, (void), ())
MAKES(struct ibv_context **, rdma_get_devices, (int *n), (n))
CM(ENOMEM, rdma_create_id,
   (struct rdma_event_channel * channel, struct rdma_cm_id **id, void *user,
    enum rdma_port_space space),
   (channel, id, user, space))
CM(EADDRINUSE, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr *a), (id, a))
CM(EADDRINUSE, rdma_listen, (struct rdma_cm_id * id, int backlog), (id, backlog))
CM(EADDRNOTAVAIL, rdma_resolve_addr,
   (struct rdma_cm_id * id, struct sockaddr *from, struct sockaddr *to, int ms), (id, from, to, ms))
CM(ENETUNREACH, rdma_resolve_route, (struct rdma_cm_id * id, int ms), (id, ms))
CM(ENOMEM, rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param *p), (id, p))
CM(ENOMEM, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param *p), (id, p))
CM(EINVAL, rdma_establish, (struct rdma_cm_id * id), (id))
CM(EINVAL, rdma_init_qp_attr, (struct rdma_cm_id * id, struct ibv_qp_attr *attr, int *mask),
   (id, attr, mask))

/* ---- queue pairs by their numbers ----------------------------------------------------------- */

enum { QUEUE_PAIRS = 4096 };

static struct ibv_qp *queue_pairs[QUEUE_PAIRS];
static pthread_mutex_t queue_pairs_lock = PTHREAD_MUTEX_INITIALIZER;

/* Puts new where old was; NULL is nothing. */
static void queue_pair_put(const struct ibv_qp *old, struct ibv_qp *new) {
    pthread_mutex_lock(&queue_pairs_lock);
    for (unsigned i = 0; i < QUEUE_PAIRS; i++) {
        if (queue_pairs[i] == old) {
            queue_pairs[i] = new;
            break;
        }
    }
    pthread_mutex_unlock(&queue_pairs_lock);
}

struct ibv_qp *__real_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
    if (device_fails("ibv_create_qp")) {
        errno = ENOMEM;
        return NULL;
    }
    struct ibv_qp *qp = __real_ibv_create_qp(pd, attr);
    if (qp)
        queue_pair_put(NULL, qp);
    return qp;
}

int __real_ibv_destroy_qp(struct ibv_qp *qp);
int __wrap_ibv_destroy_qp(struct ibv_qp *qp);
int __wrap_ibv_destroy_qp(struct ibv_qp *qp) {
    queue_pair_put(qp, NULL);
    return __real_ibv_destroy_qp(qp);
}

static void queue_pair_break(const struct ibv_context *c, uint32_t number) {
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    pthread_mutex_lock(&queue_pairs_lock);
    for (unsigned i = 0; i < QUEUE_PAIRS; i++) {
        struct ibv_qp *qp = queue_pairs[i];
        if (qp && qp->context == c && qp->qp_num == number)
            __real_ibv_modify_qp(qp, &error, IBV_QP_STATE);
    }
    pthread_mutex_unlock(&queue_pairs_lock);
}

/* ---- what the headers call by the device's table -------------------------------------------- */

static struct ibv_context_ops table; /* the driver's: of one kind are all devices of a guest */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
    if (!device_fails("ibv_post_send"))
        return table.post_send(qp, wr, bad);
    *bad = wr;
    return ENOMEM;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
    if (!device_fails("ibv_post_recv"))
        return table.post_recv(qp, wr, bad);
    *bad = wr;
    return ENOMEM;
}

static enum ibv_wc_status failure_of(enum ibv_wc_opcode opcode) {
    switch (opcode) {
    case IBV_WC_BIND_MW:
        return IBV_WC_MW_BIND_ERR;
    case IBV_WC_LOCAL_INV:
        return IBV_WC_LOC_QP_OP_ERR;
    default:
        return IBV_WC_RETRY_EXC_ERR;
    }
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc) {
    int n = table.poll_cq(cq, most, wc);
    if (n > 0 && device_fails("ibv_poll_cq"))
        return -1;
    for (int i = 0; i < n; i++) {
        if (wc[i].status != IBV_WC_SUCCESS || wc[i].opcode & IBV_WC_RECV ||
            !device_fails("a completion"))
            continue;
        wc[i].status = failure_of(wc[i].opcode);
        queue_pair_break(cq->context, wc[i].qp_num);
    }
    return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited) {
    return device_fails("ibv_req_notify_cq") ? EIO : table.req_notify_cq(cq, solicited);
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type) {
    if (!device_fails("ibv_alloc_mw"))
        return table.alloc_mw(pd, type);
    errno = ENOMEM;
    return NULL;
}

struct ibv_context *__real_ibv_open_device(struct ibv_device *d);
struct ibv_context *__wrap_ibv_open_device(struct ibv_device *d);
struct ibv_context *__wrap_ibv_open_device(struct ibv_device *d) {
    if (device_fails("ibv_open_device")) {
        errno = ENOMEM;
        return NULL;
    }
    struct ibv_context *c = __real_ibv_open_device(d);
    if (!c)
        return NULL;
    table = c->ops;
    c->ops.post_send = post_send;
    c->ops.post_recv = post_recv;
    c->ops.poll_cq = poll_cq;
    c->ops.req_notify_cq = req_notify_cq;
    c->ops.alloc_mw = alloc_mw;
    return c;
}
