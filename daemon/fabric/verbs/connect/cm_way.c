/* SPDX-License-Identifier: MIT */
/*
 * cm_way.c - connecting by rdma_cm: the way, and the turn in which its events are taken.
 *
 * Events are acknowledged as soon as they are copied, so that ids can be destroyed at any time.
 *
 * The library opens devices for itself and keeps them open; only listing the devices makes it
 * notice that one has vanished, which is what `rdma link delete` waits for. It does not even then
 * when no other device is left: a limit of connecting by rdma_cm.
 */
#include "daemon/fabric/verbs/connect/cm_way.h"
#include "daemon/base/clock.h"
#include "daemon/fabric/verbs/connect/cm.h"
#include "daemon/fabric/verbs/connect/cm_call.h"
#include "daemon/fabric/verbs/instance/way.h"
#include "daemon/fabric/verbs/target/targets.h"
#include <assert.h>
#include <string.h>

#define EVENTS_A_TURN 32

/* ---- a link of ours ------------------------------------------------------------------------ */

static int cm_way_prepare(struct verbs_link *l, struct verbs_hello *hello, struct error *err) {
    (void)l;
    (void)err;
    hello->cm = true; /* QPs are made when it is known where to */
    return 0;
}

static int cm_way_open(struct verbs_link *l, const char *host, const struct verbs_offer *offer,
                       struct error *err) {
    struct verbs *v = l->verbs;
    if (!offer->cm)
        return error_set(err, RDMAD_E_PROTOCOL,
                         "%s offers a connection that does not answer what was asked for", host);
    l->state = LINK_CONNECTING;
    l->reads = true;
    l->deadline_ns =
        clock_after(v->env->now_ns(v->env->user), v->env->settings->connect_timeout_ns);
    verbs_timer_at(v, l->deadline_ns);
    return cm_call_dial(l, host, offer, err);
}

static void cm_way_hang_up(struct verbs_link *l) {
    if (l->cm)
        cm_call_end(l->cm);
}

/* ---- a peer's connection ------------------------------------------------------------------- */

static int cm_way_offer(struct vpeer *p, const struct verbs_hello *hello, struct verbs_offer *out,
                        struct error *err) {
    (void)hello;
    struct verbs *v = p->verbs;
    struct cm *cm;
    int rc = target_make_room(p, NULL, err);
    if (rc == 0)
        rc = cm_of(v, &cm, err);
    if (rc == 0 && !cm->listener)
        rc = cm_listen(cm, err);
    if (rc)
        return rc;
    struct cm_offer *o = cm_offer_new(cm, p, err);
    if (!o)
        return err->code;
    p->offers_way = &connect_cm;
    *out = (struct verbs_offer){.cm = true, .number = o->number, .port = cm->port};
    memcpy(out->address, cm->address, sizeof(out->address));
    memcpy(out->token, o->token, sizeof(out->token));
    return 0;
}

static void cm_way_target_left(struct verbs_target *t) {
    if (t->cm)
        cm_call_end(t->cm);
}

static void cm_way_drop_offers(struct vpeer *p) {
    struct cm *cm = p->verbs->cm;
    assert(cm);
    list_for_each_safe (pos, &cm->offers) {
        struct cm_offer *o = list_entry(pos, struct cm_offer, node);
        if (o->peer == p)
            cm_offer_free(o);
    }
}

const struct connect_way connect_cm = {
    .prepare = cm_way_prepare,
    .open = cm_way_open,
    .hang_up = cm_way_hang_up,
    .offer = cm_way_offer,
    .target_left = cm_way_target_left,
    .drop_offers = cm_way_drop_offers,
};

/* ---- events -------------------------------------------------------------------------------- */

static bool take_event(struct cm *cm, struct cm_event *out, bool *called) {
    struct rdma_cm_event *e;
    if (rdma_get_cm_event(cm->channel, &e))
        return false;
    *called = e->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    *out = (struct cm_event){.id = e->id, .type = e->event, .status = e->status};
    if (*called || out->type == RDMA_CM_EVENT_CONNECT_RESPONSE ||
        out->type == RDMA_CM_EVENT_ESTABLISHED) {
        const struct rdma_conn_param *p = &e->param.conn;
        out->reads = *called ? p->responder_resources : p->initiator_depth;
        out->size =
            p->private_data_len < sizeof(out->data) ? p->private_data_len : sizeof(out->data);
        if (p->private_data)
            memcpy(out->data, p->private_data, out->size);
        else
            out->size = 0;
    }
    rdma_ack_cm_event(e);
    return true;
}

/* Whoever listens is moved with the addresses: the next offer listens anew. */
static void listener_event(struct cm *cm, const struct cm_event *e) {
    if (e->type != RDMA_CM_EVENT_DEVICE_REMOVAL && e->type != RDMA_CM_EVENT_ADDR_CHANGE)
        return;
    rdma_destroy_id(cm->listener);
    cm->listener = NULL;
}

void cm_way_poll(struct verbs *v) {
    struct cm_event e;
    bool called;
    for (unsigned i = 0; i < EVENTS_A_TURN; i++) {
        struct cm *cm = v->cm; /* what an event leads to may close it */
        if (!cm || !take_event(cm, &e, &called))
            return;
        v->progress++;
        if (called)
            cm_call_requested(cm, &e);
        else if (e.id == cm->listener)
            listener_event(cm, &e);
        else if (e.id->context)
            cm_call_event(e.id->context, &e);
    }
}

/* ---- timers, and the end ------------------------------------------------------------------- */

static void call_timer(struct verbs *v, struct cm_call *call) {
    if (call->link || call->state == CALL_UP)
        return;
    if (v->now_ns < call->deadline_ns)
        verbs_timer_at(v, call->deadline_ns);
    else
        target_drop(call->target);
}

void cm_way_timers(struct verbs *v) {
    struct cm *cm = v->cm;
    if (!cm)
        return;
    list_for_each_safe (pos, &cm->offers) {
        struct cm_offer *o = list_entry(pos, struct cm_offer, node);
        if (v->now_ns >= o->expires_ns)
            cm_offer_free(o);
        else
            verbs_timer_at(v, o->expires_ns);
    }
    list_for_each_safe (pos, &cm->calls)
        call_timer(v, list_entry(pos, struct cm_call, node));
}

/* Makes the library notice that a device has vanished. */
static void release_devices(void) {
    struct ibv_context **all = rdma_get_devices(NULL);
    if (all)
        rdma_free_devices(all);
}

void cm_way_close(struct verbs *v) {
    struct cm *cm = v->cm;
    if (!cm)
        return;
    for (struct list *pos; (pos = list_first(&cm->calls));)
        cm_call_end(list_entry(pos, struct cm_call, node));
    cm_free(v);
    if (v->going)
        release_devices();
}
