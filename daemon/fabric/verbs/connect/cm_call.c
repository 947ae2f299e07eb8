/* SPDX-License-Identifier: MIT */
/*
 * cm_call.c - one connection by rdma_cm, from the address to the last event.
 *
 * The happy path of a caller: address, route, QP to INIT, a request with the token; the answer
 * takes the QP to RTR and RTS. When we are called: the token names the offer, a target is made in
 * its peer's PD, its QP is taken to RTS, and the answer is sent. The QPs are made by us and not by
 * the library, so that they complete on our CQs and obey our settings; the library only tells their
 * attributes. With iWARP the kernel takes QPs beyond INIT by itself.
 *
 * The private data of request and answer are a version, three zeros, and then the token or what the
 * target takes: the largest message of its port, and where its inbox is. An unknown token, one used
 * before, one that came too late: all are refused in the same way and without a word.
 *
 * Whatever goes wrong fails the link or closes the target, and that ends the call.
 */
#include "daemon/fabric/verbs/connect/cm_call.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/instance/way.h"
#include "daemon/fabric/verbs/link/links.h"
#include "daemon/fabric/verbs/link/recover.h"
#include "daemon/fabric/verbs/target/inbox.h"
#include "daemon/fabric/verbs/target/targets.h"
#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESOLVE_MS 200
#define TALK_VERSION 2u
#define TALK_HEAD 4u /* version, zeros */
#define REQUEST_BYTES (TALK_HEAD + VERBS_TOKEN_BYTES)
#define ANSWER_BYTES sizeof(struct cm_answer)

/* Little-endian. */
struct cm_answer {
    uint8_t version, zeros[3];
    uint32_t inbox_rkey, inbox_size;
    uint16_t inbox_count;
    uint8_t features, zero;
    uint64_t max_message, inbox_address;
};
_Static_assert(sizeof(struct cm_answer) == 32, "an answer has no holes");

static struct queue *cm_call_queue(const struct cm_call *call) {
    return call->link ? &call->link->lane[0].queue : &call->target->queue[0];
}

static const struct verbs_settings *cm_call_settings(const struct cm_call *call) {
    return &call->cm->verbs->device->settings;
}

static int cm_call_timeout_ms(const struct cm_call *call) {
    uint64_t ms = call->cm->verbs->env->settings->connect_timeout_ns / NSEC_PER_MSEC;
    return ms < 1 ? 1 : ms > 60000 ? 60000 : (int)ms;
}

/* ---- ends ---------------------------------------------------------------------------------- */

void cm_call_end(struct cm_call *call) {
    if (call->link)
        call->link->cm = NULL;
    if (call->target)
        call->target->cm = NULL;
    if (call->id && call->state >= CALL_TOLD)
        rdma_disconnect(call->id); /* the other end learns at once; harmless when it did first */
    if (call->id)
        rdma_destroy_id(call->id);
    list_remove(&call->node);
    free(call);
}

/* The last thing done with a call. */
static void cm_call_fail(struct cm_call *call, const struct error *why) {
    struct verbs_target *t = call->target;
    if (t) {
        LOG_LIMITED_OF(log_of_connection(t->peer->id), INFO,
                       ("link %" PRIu64 " of a peer ended: %s", t->number, why->text),
                       FIELD_U64("PEER", t->peer->id));
        target_close(t);
    } else {
        link_fail(call->link, why);
    }
}

static struct cm_call *cm_call_new(struct cm *cm) {
    struct cm_call *call = calloc(1, sizeof(*call));
    if (!call)
        return NULL;
    call->cm = cm;
    list_append(&cm->calls, &call->node);
    return call;
}

/* ---- the QP -------------------------------------------------------------------------------- */

/* What the library cannot know. */
static void cm_call_fill_in(const struct cm_call *call, struct ibv_qp_attr *attr, uint8_t reads) {
    const struct verbs_settings *s = cm_call_settings(call);
    attr->qp_access_flags = call->target ? target_access(call->cm->verbs->device) : 0;
    attr->min_rnr_timer = s->min_rnr_timer;
    attr->max_dest_rd_atomic = call->target ? reads : 0;
    attr->max_rd_atomic = call->link ? reads : 0;
    attr->timeout = s->timeout;
    attr->retry_cnt = s->retry_count;
    attr->rnr_retry = s->rnr_retry;
}

static int cm_call_step(struct cm_call *call, enum ibv_qp_state state, uint8_t reads,
                        struct error *err) {
    struct queue *q = cm_call_queue(call);
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask = 0;
    if (rdma_init_qp_attr(call->id, &attr, &mask))
        return error_errno(err, RDMAD_E_FABRIC,
                           "rdma_cm tells nothing for a queue pair; the other end may have left");
    cm_call_fill_in(call, &attr, reads);
    int rc = state == IBV_QPS_RTR && attr.ah_attr.is_global
                 ? qp_find_way(q, attr.ah_attr.grh.dgid.raw, err)
                 : 0;
    if (rc) /* the peer names it, and to look for it the kernel would hold this thread */
        return rc;
    rc = ibv_modify_qp(q->qp, &attr, mask);
    if (rc) {
        errno = rc;
        return error_errno(err, RDMAD_E_FABRIC, "%s: a queue pair does not take what rdma_cm says",
                           call->cm->verbs->device->name);
    }
    if (state == IBV_QPS_RTR)
        q->other = attr.dest_qp_num;
    q->connected = state == IBV_QPS_RTS;
    return 0;
}

/* From INIT on. */
static int cm_call_steps(struct cm_call *call, uint8_t reads, struct error *err) {
    if (call->cm->verbs->device->iwarp) {
        cm_call_queue(call)->connected = true;
        return 0;
    }
    int rc = cm_call_step(call, IBV_QPS_RTR, reads, err);
    return rc ? rc : cm_call_step(call, IBV_QPS_RTS, reads, err);
}

static uint8_t fewer(uint8_t a, uint8_t b) {
    return a < b ? a : b;
}

/* ---- who calls ----------------------------------------------------------------------------- */

static int numeric_host(const char *host, struct sockaddr_in6 *out) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found;
    if (getaddrinfo(host, NULL, &hints, &found))
        return -1;
    int rc = found->ai_addrlen <= sizeof(*out) ? 0 : -1;
    if (rc == 0)
        memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return rc;
}

static int where(const char *host, const struct verbs_offer *offer, struct sockaddr_in6 *out,
                 struct error *err) {
    static const uint8_t none[sizeof(offer->address)];
    if (memcmp(offer->address, none, sizeof(none)) != 0)
        *out = cm_sockaddr(offer->address, offer->port);
    else if (numeric_host(host, out))
        return error_set(err, RDMAD_E_UNREACHABLE, "\"%.100s\" is no address for rdma_cm", host);
    out->sin6_port = htons(offer->port); /* at the same place in both kinds of address */
    return 0;
}

/* The kernel may miss that a neighbour has answered, and then looks again when its time is over: so
 * it gets little, many times, until the link's time is. */
static int cm_call_resolve(struct cm_call *call) {
    return rdma_resolve_addr(call->id, (struct sockaddr *)&call->from, (struct sockaddr *)&call->to,
                             RESOLVE_MS);
}

int cm_call_dial(struct verbs_link *l, const char *host, const struct verbs_offer *offer,
                 struct error *err) {
    assert(l->state == LINK_CONNECTING && !l->cm);
    struct cm *cm;
    struct sockaddr_in6 from, to;
    int rc = cm_of(l->verbs, &cm, err);
    if (rc == 0)
        rc = where(host, offer, &to, err);
    if (rc == 0)
        rc = cm_address(cm, &from, err);
    if (rc == 0)
        rc = link_make_queues(l, 1, true, err);
    if (rc)
        return rc;
    struct cm_call *call = l->cm = cm_call_new(cm);
    if (!call)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a call by rdma_cm");
    call->link = l;
    call->number = offer->number;
    memcpy(call->token, offer->token, sizeof(call->token));
    if (rdma_create_id(cm->channel, &call->id, call, RDMA_PS_TCP)) {
        call->id = NULL;
        return error_errno(err, RDMAD_E_FABRIC, "no rdma_cm id to call with");
    }
    call->from = from;
    call->to = to;
    if (cm_call_resolve(call))
        return error_errno(err, RDMAD_E_UNREACHABLE, "rdma_cm finds no way to %.100s port %u", host,
                           offer->port);
    return 0;
}

static int cm_call_resolved(struct cm_call *call, struct error *err) {
    const struct device *d = call->cm->verbs->device;
    if (!cm_is_ours(call->cm, call->id))
        return error_set(err, RDMAD_E_UNREACHABLE,
                         "the way to the peer does not begin at device %s port %u: look at the "
                         "routes, or choose another by verbs.device",
                         d->name, d->port);
    if (rdma_resolve_route(call->id, cm_call_timeout_ms(call)))
        return error_errno(err, RDMAD_E_UNREACHABLE, "rdma_cm finds no route");
    return 0;
}

static int cm_call_request(struct cm_call *call, struct error *err) {
    const struct verbs_settings *s = cm_call_settings(call);
    uint8_t data[REQUEST_BYTES] = {TALK_VERSION};
    int rc = cm_call_step(call, IBV_QPS_INIT, 0, err);
    if (rc)
        return rc;
    memcpy(data + TALK_HEAD, call->token, sizeof(call->token));
    struct rdma_conn_param param = {
        .private_data = data,
        .private_data_len = sizeof(data),
        .initiator_depth = s->rd_atomic,
        .retry_count = s->retry_count,
        .rnr_retry_count = s->rnr_retry,
        .qp_num = cm_call_queue(call)->qp->qp_num,
    };
    call->state = CALL_TOLD;
    if (rdma_connect(call->id, &param))
        return error_errno(err, RDMAD_E_UNREACHABLE, "rdma_cm does not send a request");
    return 0;
}

static int cm_call_answered(struct cm_call *call, const struct cm_event *e, struct error *err) {
    struct cm_answer a;
    if (e->size < ANSWER_BYTES || e->data[0] != TALK_VERSION)
        return error_set(err, RDMAD_E_PROTOCOL,
                         "who answered by rdma_cm is not a daemon of this version");
    memcpy(&a, e->data, sizeof(a));
    const struct inbox_place inbox = {.address = le64toh(a.inbox_address),
                                      .rkey = le32toh(a.inbox_rkey),
                                      .size = le32toh(a.inbox_size),
                                      .count = le16toh(a.inbox_count),
                                      .features = a.features};
    if (a.max_message == 0 || !inbox_place_ok(&inbox))
        return error_set(err, RDMAD_E_PROTOCOL, "the peer takes messages of no bytes");
    uint8_t reads = fewer(cm_call_settings(call)->rd_atomic, e->reads);
    if (!reads && !call->cm->verbs->device->iwarp)
        return error_set(err, RDMAD_E_PROTOCOL, "the peer answers no READs");
    int rc = cm_call_steps(call, reads, err);
    if (rc)
        return rc;
    if (e->type == RDMA_CM_EVENT_CONNECT_RESPONSE && rdma_establish(call->id))
        return error_errno(err, RDMAD_E_FABRIC, "rdma_cm does not complete a connection");
    call->state = CALL_UP;
    call->link->reads = reads > 0;
    link_connected(call->link, call->number, le64toh(a.max_message), &inbox);
    return 0;
}

/* ---- who is called ------------------------------------------------------------------------- */

static int cm_call_answer(struct cm_call *call, uint8_t reads, struct error *err) {
    const struct verbs *v = call->cm->verbs;
    struct inbox_place inbox;
    int rc = cm_call_step(call, IBV_QPS_INIT, 0, err);
    if (rc == 0)
        rc = inbox_start(call->target, err);
    if (rc == 0)
        rc = cm_call_steps(call, reads, err);
    if (rc)
        return rc;
    inbox_tell(call->target, &inbox);
    const struct cm_answer a = {.version = TALK_VERSION,
                                .inbox_rkey = htole32(inbox.rkey),
                                .inbox_size = htole32(inbox.size),
                                .inbox_count = htole16(inbox.count),
                                .features = inbox.features,
                                .max_message = htole64(v->device->max_message),
                                .inbox_address = htole64(inbox.address)};
    struct rdma_conn_param param = {
        .private_data = &a,
        .private_data_len = sizeof(a),
        .responder_resources = reads,
        .rnr_retry_count = cm_call_settings(call)->rnr_retry,
        .qp_num = cm_call_queue(call)->qp->qp_num,
    };
    if (rdma_accept(call->id, &param))
        return error_errno(err, RDMAD_E_FABRIC, "rdma_cm does not accept a connection");
    return 0;
}

/* A target for the peer that was offered one; its call has the id from here on. */
static int cm_call_take(struct cm *cm, struct vpeer *p, const struct connect_way *way,
                        uint64_t number, const struct cm_event *e, struct error *err) {
    struct verbs *v = cm->verbs;
    int rc = verbs_ready(v, err);
    if (rc)
        return rc;
    struct verbs_target *t = target_new(p, way, 1, true, err);
    if (!t)
        return err->code;
    t->number = number;
    struct cm_call *call = t->cm = cm_call_new(cm);
    if (!call) {
        target_drop(t);
        return error_set(err, RDMAD_E_NOMEM, "no memory for a call by rdma_cm");
    }
    call->target = t;
    call->id = e->id;
    call->deadline_ns = clock_after(v->now_ns, v->env->settings->connect_timeout_ns);
    rc = cm_call_answer(call, fewer(cm_call_settings(call)->dest_rd_atomic, e->reads), err);
    if (rc) {
        call->id = NULL; /* the caller refuses */
        target_drop(t);
        return rc;
    }
    e->id->context = call;
    call->state = CALL_TOLD;
    verbs_timer_at(v, call->deadline_ns);
    return 0;
}

static struct cm_offer *cm_call_offer(struct cm *cm, const struct cm_event *e) {
    uint8_t token[VERBS_TOKEN_BYTES];
    if (!cm_is_ours(cm, e->id) || e->size < REQUEST_BYTES || e->data[0] != TALK_VERSION)
        return NULL;
    memcpy(token, e->data + TALK_HEAD, sizeof(token));
    return cm_offer_find(cm, token);
}

static void cm_call_refuse(struct rdma_cm_id *id, const char *why) {
    LOG_LIMITED(NOTICE, ("a connection by rdma_cm is refused: %s", why));
    rdma_reject(id, NULL, 0);
    rdma_destroy_id(id);
}

void cm_call_requested(struct cm *cm, const struct cm_event *e) {
    struct error why;
    struct cm_offer *o = cm_call_offer(cm, e);
    if (!o) {
        cm_call_refuse(e->id, "it shows no token that was offered and is still good");
        return;
    }
    struct vpeer *p = o->peer;
    const struct connect_way *way = p->offers_way;
    uint64_t number = o->number;
    p->holds++;
    cm_offer_free(o);
    if (cm_call_take(cm, p, way, number, e, &why))
        cm_call_refuse(e->id, why.text);
    p->holds--;
    vpeer_check_free(p);
}

/* ---- what happens to a call ---------------------------------------------------------------- */

static int cm_call_unreachable(const struct cm_event *e, struct error *err) {
    static const char refused[] =
        "the peer refused (a token that it does not know, or no longer: see its log)";
    return error_set(err, RDMAD_E_UNREACHABLE, "rdma_cm got no connection: %s, status %d",
                     e->type == RDMA_CM_EVENT_REJECTED ? refused : rdma_event_str(e->type),
                     e->status);
}

void cm_call_event(struct cm_call *call, const struct cm_event *e) {
    struct error why;
    int rc = 0;
    enum rdma_cm_event_type type = e->type;
    if (call->link && call->link->state >= LINK_FAILING)
        return; /* which ends the call in this turn */
    if (type == RDMA_CM_EVENT_REJECTED &&
        (call->state == CALL_UP || call->target)) /* it hung up early */
        type = RDMA_CM_EVENT_DISCONNECTED;
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        rc = cm_call_resolved(call, &why);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        rc = cm_call_request(call, &why);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        if (call->link)
            rc = cm_call_answered(call, e, &why);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        if (call->target)
            call->state = CALL_UP;
        else if (call->link && call->state != CALL_UP) /* iWARP has no other answer */
            rc = cm_call_answered(call, e, &why);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        rc = error_set(&why, RDMAD_E_PEER_LOST, "the other end of the link hung up");
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        rc = error_set(&why, RDMAD_E_FABRIC, "the device of the link is being removed");
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
        if (e->status == -ETIMEDOUT && cm_call_resolve(call) == 0)
            break;
        rc = cm_call_unreachable(e, &why);
        break;
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
        rc = cm_call_unreachable(e, &why);
        break;
    default: /* TIMEWAIT_EXIT: the QP's numbers are free; ADDR_CHANGE: the link shows by itself */
        break;
    }
    if (rc)
        cm_call_fail(call, &why);
}
