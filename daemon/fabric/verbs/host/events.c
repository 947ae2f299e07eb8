/* SPDX-License-Identifier: MIT */
/*
 * events.c - the device's asynchronous events.
 *
 * An event of a QP is copied and acknowledged at once, because ibv_destroy_qp waits for that; then
 * it is the members'. An event of the port, whatever it says, is a reason to ask the port how it
 * is: events come late, together, or not at all. A broken CQ cannot be mended apart, so it counts
 * as a broken device.
 */
#include "daemon/fabric/verbs/host/events.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/host/in_use.h"
#include "daemon/fabric/verbs/host/member.h"
#include "daemon/fabric/verbs/host/state.h"
#include <errno.h>
#include <string.h>

#define SETTLE_NS (100 * NSEC_PER_MSEC) /* after an event of the port, ask once more */

static const struct event_rule rules[] = {
    [IBV_EVENT_CQ_ERR] = {EVENT_DEVICE, LOG_ERR, "CQ_ERR", "a completion queue is broken"},
    [IBV_EVENT_QP_FATAL] = {EVENT_QP, LOG_WARNING, "QP_FATAL", "is broken"},
    [IBV_EVENT_QP_REQ_ERR] = {EVENT_QP, LOG_WARNING, "QP_REQ_ERR", "got a malformed request"},
    [IBV_EVENT_QP_ACCESS_ERR] = {EVENT_QP, LOG_WARNING, "QP_ACCESS_ERR", "refused an access"},
    [IBV_EVENT_COMM_EST] = {EVENT_QP, LOG_DEBUG, "COMM_EST", "got its first packet"},
    [IBV_EVENT_SQ_DRAINED] = {EVENT_QP, LOG_DEBUG, "SQ_DRAINED", "sent all it had"},
    [IBV_EVENT_PATH_MIG] = {EVENT_QP, LOG_NOTICE, "PATH_MIG", "took its other path"},
    [IBV_EVENT_PATH_MIG_ERR] = {EVENT_QP, LOG_WARNING, "PATH_MIG_ERR",
                                "could not take its other path"},
    [IBV_EVENT_DEVICE_FATAL] = {EVENT_DEVICE, LOG_ERR, "DEVICE_FATAL", "the device is broken"},
    [IBV_EVENT_PORT_ACTIVE] = {EVENT_PORT, LOG_INFO, "PORT_ACTIVE", "the port is active"},
    [IBV_EVENT_PORT_ERR] = {EVENT_PORT, LOG_INFO, "PORT_ERR", "the port is down"},
    [IBV_EVENT_LID_CHANGE] = {EVENT_PORT, LOG_INFO, "LID_CHANGE", "the LID changed"},
    [IBV_EVENT_PKEY_CHANGE] = {EVENT_PORT, LOG_INFO, "PKEY_CHANGE", "the P_Keys changed"},
    [IBV_EVENT_SM_CHANGE] = {EVENT_PORT, LOG_INFO, "SM_CHANGE", "the subnet manager changed"},
    [IBV_EVENT_SRQ_ERR] = {EVENT_NOTE, LOG_WARNING, "SRQ_ERR", "an SRQ is broken, we have none"},
    [IBV_EVENT_SRQ_LIMIT_REACHED] = {EVENT_NOTE, LOG_DEBUG, "SRQ_LIMIT_REACHED",
                                     "an SRQ runs low, we have none"},
    [IBV_EVENT_QP_LAST_WQE_REACHED] = {EVENT_QP, LOG_DEBUG, "QP_LAST_WQE_REACHED",
                                       "took its last receive"},
    [IBV_EVENT_CLIENT_REREGISTER] = {EVENT_PORT, LOG_INFO, "CLIENT_REREGISTER",
                                     "the subnet manager wants to be asked again"},
    [IBV_EVENT_GID_CHANGE] = {EVENT_PORT, LOG_INFO, "GID_CHANGE", "the GIDs changed"},
    [IBV_EVENT_WQ_FATAL] = {EVENT_NOTE, LOG_WARNING, "WQ_FATAL", "a WQ is broken, we have none"},
};

const struct event_rule *event_rule(enum ibv_event_type type) {
    static const struct event_rule unknown = {EVENT_NOTE, LOG_NOTICE, "unknown",
                                              "an event that this version does not know"};
    size_t i = (size_t)type;
    return i < sizeof(rules) / sizeof(rules[0]) && rules[i].name ? &rules[i] : &unknown;
}

static void event_say(const struct device *d, const struct event_rule *rule, uint32_t qp_num) {
    static struct log_limit
        limit; /* a peer can provoke these; the device thread alone comes here */
    const struct log_field fields[] = {FIELD_STR("DEVICE", d->name), FIELD_STR("EVENT", rule->name),
                                       rule->kind == EVENT_QP ? FIELD_U64("QP", qp_num)
                                                              : (struct log_field){NULL, NULL, 0},
                                       (struct log_field){NULL, NULL, 0}};
    const char *text = rule->kind == EVENT_QP
                           ? log_format("%s: QP %u %s", d->name, qp_num, rule->says)
                           : log_format("%s: %s", d->name, rule->says);
    log_write(rule->level, &limit, LOG_OWN, text, fields);
}

/* Whether the device still stands. */
static bool event_handle(struct fabric_host *h, struct ibv_async_event *event) {
    const struct device *d = &h->open->d;
    const struct event_rule *rule = event_rule(event->event_type);
    uint32_t qp_num = rule->kind == EVENT_QP ? event->element.qp->qp_num : 0;
    int port = rule->kind == EVENT_PORT ? event->element.port_num : 0;
    ibv_ack_async_event(event);

    if (rule->kind == EVENT_PORT && port != (int)d->port)
        return true;
    event_say(d, rule, qp_num);
    switch (rule->kind) {
    case EVENT_PORT:
        in_use_look(h);
        h->look_ns = clock_now_ns() + SETTLE_NS;
        break;
    case EVENT_QP:
        pthread_mutex_lock(&h->lock);
        members_qp_event(h, qp_num, event->event_type);
        pthread_mutex_unlock(&h->lock);
        break;
    case EVENT_DEVICE: {
        struct error why;
        error_set(&why, RDMAD_E_PEER_LOST, "%s: %s (%s); it is opened again", d->name, rule->says,
                  rule->name);
        h->failures++;
        in_use_lose(h, &why);
        return false;
    }
    case EVENT_NOTE:
        break;
    }
    return true;
}

void events_take(struct fabric_host *h) {
    struct ibv_async_event event;
    while (ibv_get_async_event(h->open->d.context, &event) == 0) {
        if (!event_handle(h, &event))
            return;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return;
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST, "%s: its events cannot be read any more: %s",
              h->open->d.name, strerror(errno));
    in_use_lose(h, &why);
}
